#!/usr/bin/python3
"""bench/experiments/lda_peers.py SET WHO PASSES [OPTION=VALUE...] - topics against peers.

SET is kos or 20newsgroups, of the shared data; WHO is rubato, gensim, multicore
(gensim's LdaMulticore with 2 processes), online or batch (scikit-learn). Trains 50 topics with
alpha = beta = 0.1 and 2 workers, unless options say otherwise (--options of `rubato train lda`, or
arguments of the peer), and prints the seconds of training, without reading, and the perplexity of
the held-out documents. All are judged by the same few lines below: the topics are held fixed, the
shares of topics are fitted to every other token of a document, and the rest is scored. That is also
what `rubato eval` does, so rubato's own figure is printed beside it. With options of its own a
peer's documents are fitted with its own alpha.

Needs python3-gensim and python3-sklearn. Real time, so tools/experiments does not run it; figures
are in bench/RESULTS.md.
"""

import ast
import json
import re
import subprocess
import sys
import tarfile
import time
from collections import Counter

import numpy as np
import scipy.sparse

from common import OUT, RUBATO, SHARED

TOPICS = 50
PRIOR = 0.1


def read_kos():
    """Every tenth document is held out."""
    text = subprocess.run(["zstd", "-dc", SHARED / "kos/docword.kos.txt.zst"], capture_output=True,
                          text=True, check=True).stdout.split("\n", 3)
    cells = np.array(text[3].split(), dtype=np.int64).reshape(-1, 3)
    bag = scipy.sparse.csr_matrix((cells[:, 2], (cells[:, 0] - 1, cells[:, 1] - 1)),
                                  shape=(int(text[0]), int(text[1])))
    held = np.arange(bag.shape[0]) % 10 == 9
    return bag[~held], bag[held]


def read_newsgroups():
    """The split by date; message bodies; words in 20 to 2000 of the training messages."""
    parts = {"train": [], "test": []}
    with tarfile.open(SHARED / "20newsgroups/20news-bydate.tar.xz") as tar:
        for member in tar:
            if member.isfile():
                body = tar.extractfile(member).read().decode("latin-1").partition("\n\n")[2]
                part = "test" if "bydate-test" in member.name else "train"
                parts[part].append(Counter(re.findall(r"[a-z]{2,}", body.lower())))
    documents = Counter(word for counts in parts["train"] for word in counts)
    words = sorted(word for word, count in documents.items() if 20 <= count <= 2000)
    number = {word: i for i, word in enumerate(words)}
    bags = []
    for part in ("train", "test"):
        cells = [(d, number[word], count) for d, counts in enumerate(parts[part])
                 for word, count in counts.items() if word in number]
        rows, columns, counts = map(np.array, zip(*cells))
        bags.append(scipy.sparse.csr_matrix((counts, (rows, columns)),
                                            shape=(len(parts[part]), len(words))))
    return bags


def write(bag, path):
    bag = bag.tocoo()
    lines = [f"{d + 1} {w + 1} {n}" for d, w, n in sorted(zip(bag.row, bag.col, bag.data))]
    path.write_text("\n".join(map(str, (*bag.shape, bag.nnz))) + "\n" + "\n".join(lines) + "\n")


def bags_of(name):
    """The two bags, and their files for rubato."""
    paths = [OUT / f"lda-{name}.{part}.txt" for part in ("train", "test")]
    stored = [OUT / f"lda-{name}.{part}.npz" for part in ("train", "test")]
    if not all(path.exists() for path in (*paths, *stored)):
        for bag, path, copy in zip((read_kos if name == "kos" else read_newsgroups)(), paths,
                                   stored):
            bag.sort_indices()
            write(bag, path)
            scipy.sparse.save_npz(copy, bag)
    return [scipy.sparse.load_npz(path) for path in stored], paths


def perplexity(bag, phi, alpha):
    """phi[w, k] is how likely word w is in topic k."""
    total, tokens = 0.0, 0
    for d in range(bag.shape[0]):
        row = bag[d]
        every = np.repeat(row.indices, row.data)
        theta = np.full(phi.shape[1], 1 / phi.shape[1])
        words, counts = np.unique(every[0::2], return_counts=True)
        likely = phi[words]
        for _ in range(100):
            sums = theta * ((counts / (likely @ theta)) @ likely) + alpha
            change = np.abs(sums / sums.sum() - theta).sum()
            theta = sums / sums.sum()
            if change <= 1e-4:
                break
        total += np.log(phi[every[1::2]] @ theta).sum()
        tokens += len(every[1::2])
    return np.exp(-total / tokens)


def train_rubato(paths, shape, passes, options):
    model = OUT / "lda-peers.rbt"
    words = [RUBATO, "train", "lda", "--data", paths[0], "--topics", TOPICS, "--alpha", PRIOR,
             "--beta", PRIOR, "--workers", 2, "--epochs", passes, "--model", model, "--summary",
             "json", "--progress", "never"]
    for name, value in options.items():
        words += [f"--{name}", value]
    result = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True)
    summary = json.loads(result.stdout.splitlines()[-1])
    own = subprocess.run(list(map(str, [RUBATO, "eval", model, "--data", paths[1]])),
                         capture_output=True, text=True, check=True).stdout
    print("rubato eval:", " ".join(own.split()))
    counts = np.zeros((shape[1], int(options.get("topics", TOPICS))))
    exported = subprocess.run([RUBATO, "export", str(model), "--format", "counts"],
                              capture_output=True, text=True, check=True).stdout
    for line in exported.splitlines():
        word, *pairs = line.split()
        for topic, count in (map(int, pair.split(":")) for pair in pairs):
            counts[int(word) - 1, topic - 1] = count
    counts += float(options.get("beta", PRIOR))
    return summary["seconds"], counts / counts.sum(0), float(options.get("alpha", PRIOR))


def train_gensim(bag, passes, options, is_multicore):
    from gensim.matutils import Sparse2Corpus
    from gensim.models import LdaModel, LdaMulticore
    corpus = list(Sparse2Corpus(bag, documents_columns=False))
    names = {word: str(word) for word in range(bag.shape[1])}
    given = {"alpha": [PRIOR] * TOPICS, "eta": PRIOR, **options}
    if is_multicore:
        given = {"workers": 2, **given}
    began = time.time()
    model = (LdaMulticore if is_multicore else LdaModel)(
        corpus, num_topics=TOPICS, id2word=names, passes=passes, random_state=1, eval_every=None,
        **given)
    return time.time() - began, model.get_topics().T.astype(float), np.array(model.alpha, float)


def train_sklearn(bag, passes, options, method):
    from sklearn.decomposition import LatentDirichletAllocation
    given = {"doc_topic_prior": PRIOR, "topic_word_prior": PRIOR, "n_jobs": 2, **options}
    began = time.time()
    model = LatentDirichletAllocation(TOPICS, learning_method=method, max_iter=passes,
                                      random_state=1, **given).fit(bag)
    seconds = time.time() - began
    topics = model.components_
    return seconds, (topics / topics.sum(1, keepdims=True)).T, model.doc_topic_prior_


def value_of(text):
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    name, who, passes = sys.argv[1], sys.argv[2], int(sys.argv[3])
    options = {key: value_of(value) for key, value in
               (word.split("=", 1) for word in sys.argv[4:])}
    OUT.mkdir(parents=True, exist_ok=True)
    (train, test), paths = bags_of(name)
    if who == "rubato":
        seconds, phi, alpha = train_rubato(paths, train.shape, passes, options)
    elif who in ("gensim", "multicore"):
        seconds, phi, alpha = train_gensim(train, passes, options, who == "multicore")
    else:
        seconds, phi, alpha = train_sklearn(train, passes, options, who)
    print(f"{name} {who} {passes} passes {sys.argv[4:]}: {train.sum()} tokens, {train.shape[1]} "
          f"words, {seconds:.2f} s, perplexity {perplexity(test, phi, alpha):.1f}", flush=True)


if __name__ == "__main__":
    main()
