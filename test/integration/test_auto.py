"""--consistency auto on small simulated clusters: nearly as fast as the best bound, from anywhere.

Where the curve is flat, a lucky pass ends a run early, so times are means over clusters that differ
in their seed. bench/experiments/auto.py looks at many more cases, and at those that do worse.
"""

import json
import math

import pytest

BOUNDS = (1, 3, 5, 7, 11)
STARTS = (0, 50)
SEEDS = (1, 2, 3, 4)
DATA = {
    "linear": ["sparse", "--examples", "10000", "--features", "2000", "--nonzeros", "20"],
    "mf": ["ratings", "--users", "600", "--items", "200", "--ratings", "60000", "--rank", "4"],
}
SHAPES = {
    "slowdowns": ["--workers", "8", "--servers", "2", "--slowdowns", "20%x4", "--bandwidth",
                  "10Gbit"],
    "stragglers": ["--workers", "8", "--servers", "2", "--stragglers", "25%x2"],
}
EPOCHS = 60


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The data of each algorithm."""
    return {algorithm: tmp_path_factory.mktemp("auto") / algorithm for algorithm in DATA}


def seconds(rubato, seed, words):
    """Virtual seconds to the target; infinite if training diverges or does not get there."""
    result = rubato("simulate", "--seed", seed, *words, "--epochs", EPOCHS, "--summary", "json",
                    "--progress", "never")
    if result.returncode != 0:
        assert "diverged" in result.stderr
        return math.inf
    summary = json.loads(result.stdout)
    return summary["virtual_seconds"] if summary["epochs"] < EPOCHS else math.inf


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("algorithm, target", [("linear", "0.5775"), ("mf", "0.2330")])
def test_auto_is_within_20_per_cent_of_the_best_bound(rubato, files, algorithm, target, shape):
    data = files[algorithm]
    if not data.exists():
        rubato.ok("gen", *DATA[algorithm], "--out", data)
    words = [*SHAPES[shape], "--", "train", algorithm, "--data", data, "--clocks-per-epoch", "8",
             "--target", target, "--consistency"]

    def mean(consistency):
        return sum(seconds(rubato, seed, [*words, consistency]) for seed in SEEDS) / len(SEEDS)

    best = min(mean(f"essp:{s}") for s in BOUNDS)
    assert best < math.inf
    ratios = {f"auto:{s}": mean(f"auto:{s}") / best for s in STARTS}
    assert max(ratios.values()) <= 1.2, ratios
