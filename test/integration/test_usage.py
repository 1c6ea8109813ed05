"""Wrong command lines: exit code 2, one error, perhaps one hint, nothing on standard output.

A row is (name, arguments, error, hint); the hint may be None.
"""

import pytest

from conftest import policies

LINEAR = ["train", "linear", "--data", "train.svm"]
HELP = 'See "rubato train linear --help".'
RULES = (f"The rules are {', '.join(policies('rule'))}. "
         "A rule of your own is named by its path: ./mine.so.")
CONSISTENCY = ("S is the largest staleness of a read in clocks, from 0 to 1000000; for example "
               "essp:2.")


def train(*more):
    return [*LINEAR, *more]


def number(option, kind, got, purpose):
    """The row of a number that is out of range."""
    return (f"{option}={got}", train(f"{option}", got),
            f'option "{option}" needs a {kind}, got "{got}"', f"{purpose} {HELP}")


CASES = [
    ("no command", [], "the name of a command is missing", 'See "rubato --help".'),
    ("misspelt command", ["trian"], 'unrecognised command "trian"',
     'Did you mean "train"? See "rubato --help".'),
    ("strange command", ["quux"], 'unrecognised command "quux"', 'See "rubato --help".'),
    ("misspelt --version", ["--verson"], 'unrecognised option "--verson"',
     'Did you mean "--version"? See "rubato --help".'),
    ("help of a misspelt command", ["help", "plto"], 'unrecognised command "plto"',
     'Did you mean "plot"? See "rubato --help".'),
    ("no algorithm", ["train"], "the name of the algorithm is missing",
     'Use "rubato train ALGO --data FILE"; "rubato train --list" lists the algorithms.'),
    ("options before the algorithm", ["train", "--epochs", "3"],
     "the name of the algorithm is missing",
     'Use "rubato train ALGO --data FILE"; "rubato train --list" lists the algorithms.'),
    ("misspelt algorithm", ["train", "liner"], 'unrecognised algorithm "liner"',
     'Did you mean "linear"? See "rubato train --list".'),
    ("strange algorithm", ["train", "quux"], 'unrecognised algorithm "quux"',
     'See "rubato train --list".'),
    ("missing --data", ["train", "linear"], 'option "--data" is missing',
     "Name the training data: rubato train linear --data FILE."),
    ("misspelt option", train("--epoks", "3"),
     'unrecognised option "--epoks" for "rubato train linear"',
     f'Did you mean "--epochs"? {HELP}'),
    ("strange option", train("--quux"), 'unrecognised option "--quux" for "rubato train linear"',
     HELP),
    ("short option", train("-x"), 'unrecognised option "-x" for "rubato train linear"', HELP),
    ("extra argument", ["train", "linear", "extra", "--data", "train.svm"],
     'unexpected argument "extra" for "rubato train linear"', HELP),
    ("option without its value", train("--seed"), 'option "--seed" needs a value',
     f"Seed of all random numbers. {HELP}"),
    ("list without a value", train("--eval", "--seed", "1"), 'option "--eval" needs a value',
     f"Data to evaluate the model on after every epoch. {HELP}"),
    ("flag with a value", train("--zero-based=3"),
     'option "--zero-based" takes no value, got "3"',
     f"Features of libsvm files start at 0 instead of 1. {HELP}"),
    number("--workers", "whole number from 1 to 1024", "0",
           "Worker threads; by default one per core."),
    number("--workers", "whole number from 1 to 1024", "1025",
           "Worker threads; by default one per core."),
    number("--servers", "whole number from 1 to 256", "257", "Shards that hold the parameters."),
    number("--epochs", "whole number from 1 to 1000000", "0",
           "Passes over the data. The default depends on the algorithm."),
    number("--epochs", "whole number from 1 to 1000000", "1.5",
           "Passes over the data. The default depends on the algorithm."),
    number("--epochs", "whole number from 1 to 1000000", "99999999999999999999",
           "Passes over the data. The default depends on the algorithm."),
    number("--clocks-per-epoch", "whole number from 1 to 1000000", "x",
           "Clocks per pass; workers exchange updates at every clock. The default depends on the "
           "algorithm: usually 1; 2 in linear, 4 in lda and fm, up to 8 in mf with several "
           "workers, 32 with a rule that takes gradients."),
    number("--seed", "whole number of at least 0", "-1", "Seed of all random numbers."),
    number("--target", "number", "nan", "Stop when the objective of a pass reaches X."),
    ("misspelt choice", train("--format", "libsvn"),
     'option "--format" needs auto, libsvm, csv, ratings, tsv, criteo, avazu, bow or text, '
     'got "libsvn"',
     f'Did you mean "libsvm"? {HELP}'),
    ("strange choice", train("--summary", "brief"),
     'option "--summary" needs text, json or full, got "brief"',
     "How results are printed: text has the result, the time and where the model is; full has "
     f"all figures; json has all figures for programs. {HELP}"),
    ("bound missing", train("--consistency", "ssp"),
     'option "--consistency" needs bsp, ssp:S, essp:S, asp or auto, got "ssp"', CONSISTENCY),
    ("bound too many", train("--consistency", "bsp:1"),
     'option "--consistency" needs bsp, ssp:S, essp:S, asp or auto, got "bsp:1"', CONSISTENCY),
    ("bound negative", train("--consistency", "essp:-1"),
     'option "--consistency" needs bsp, ssp:S, essp:S, asp or auto, got "essp:-1"', CONSISTENCY),
    ("rule that is not there", train("--rule", "quux"), 'there is no rule "quux"', RULES),
    ("misspelt rule", train("--rule", "adagard:lr=1"), 'there is no rule "adagard"',
     'Did you mean "adagrad"?'),
    ("misspelt filter", train("--filter", "keys,push.fixd:8"), 'there is no filter "fixd"',
     'Did you mean "fixed"?'),
    ("misspelt priority", train("--bandwidth", "1MB", "--rule", "adarev", "--priority", "relatve"),
     'there is no priority "relatve"', 'Did you mean "relative"?'),
    ("rule's parameter that is not there", train("--rule", "adagrad:lt=1"),
     'rule "adagrad" has no parameter "lt"', None),
    ("rule that weighs, and the mean", train("--rule", "dynsgd", "--combine", "mean"),
     'option "--combine mean" excludes rule "dynsgd", which weighs moves',
     "Omit --combine, or use --rule add."),
    ("rule that takes gradients, and the sum", train("--rule", "adagrad", "--combine", "sum"),
     'option "--combine" excludes rule "adagrad", which takes gradients',
     "Omit --combine: the rule combines gradients itself."),
    ("l1 without a rule for it", train("--rule", "adagrad", "--l1", "1e-5"),
     'rule "adagrad" does not support "--l1"',
     'Use rule "ftrl" or "prox", or a rule that takes moves, such as "add".'),
    ("a schedule for a rule's steps", train("--rule", "adagrad", "--schedule", "sqrt"),
     'rule "adagrad" excludes "--schedule": it sets the step sizes itself',
     'Omit --schedule; "--rule help" lists the parameters of the rule.'),
    ("two step sizes", train("--rule", "adagrad:lr=1", "--lr", "1"),
     'the step size is given twice, by "--lr" and by "adagrad:lr=1"', None),
    ("zero-based csv", train("--zero-based", "--format", "csv"),
     'option "--zero-based" works with --format libsvm only, not with csv', None),
    ("standard input twice", ["train", "linear", "--data", "-", "--eval", "-"],
     'standard input ("-") can be read only once', None),
    ("log over data", train("--log", "train.svm"),
     'option "--log" would overwrite the data in "train.svm"', None),
    ("model over data", train("--model", "./train.svm"),
     'option "--model" would overwrite the data in "train.svm"', None),
    ("model and log in one", train("--model", "x", "--log", "x"),
     'options "--model" and "--log" both name "x"', None),
    ("ratings for linear", train("--format", "ratings"),
     'files of the format "ratings" do not hold examples', None),
    ("predict without a model", ["predict", "--data", "train.svm"], "the model file is missing",
     "Name the model first: rubato predict MODEL --data FILE."),
    ("predict without data", ["predict", "m"], 'option "--data" is missing',
     "Name the examples: rubato predict MODEL --data FILE."),
    ("eval without data", ["eval", "m"], 'option "--data" is missing',
     "Name the examples: rubato eval MODEL --data FILE."),
    ("plot without runs", ["plot"], "the name of a log is missing",
     'Name logs that "rubato train --log FILE" wrote.'),
    ("plot to a strange format", ["plot", "r.jsonl", "--out", "x.gif"],
     'option "--out" needs a name that ends with .svg or .png, got "x.gif"', None),
    ("plot of nothing", ["plot", "r.jsonl", "--y", "a,,b"],
     'option "--y" needs one to 8 names with commas between, got "a,,b"', None),
    ("info without a file", ["info"], "the name of a file is missing", 'See "rubato info --help".'),
    ("gen without a kind", ["gen"], "the kind of data is missing", 'See "rubato gen --help".'),
    ("gen of a misspelt kind", ["gen", "spars"], 'unrecognised kind of data "spars"',
     'Did you mean "sparse"? See "rubato gen --help".'),
    ("gen without --out", ["gen", "sparse"], 'option "--out" is missing',
     "Name the file to write: rubato gen sparse --out FILE."),
    ("gen of too many nonzeros",
     ["gen", "sparse", "--features", "5", "--nonzeros", "6", "--out", "x"],
     "--nonzeros 6 is more than --features 5", None),
    ("bench without a name", ["bench"], "the name of the benchmark is missing",
     'See "rubato bench --help".'),
    ("bench of nothing known", ["bench", "disk"], 'unrecognised benchmark "disk"',
     'See "rubato bench --help".'),
    ("gen of too many ratings",
     ["gen", "ratings", "--users", "2", "--items", "2", "--ratings", "5", "--out", "x"],
     "--ratings 5 is more than --users times --items", None),
]


@pytest.mark.parametrize("arguments, error, hint", [case[1:] for case in CASES],
                         ids=[case[0] for case in CASES])
def test_wrong_usage(rubato, arguments, error, hint):
    rubato.write("train.svm", "1 1:1\n-1 2:1\n")
    before = rubato.files()
    result = rubato(*arguments)
    expected = f"rubato: error: {error}\n" + (f"rubato: hint: {hint}\n" if hint else "")
    assert result.stderr == expected
    assert result.returncode == 2
    assert result.stdout == ""
    assert rubato.files() == before


def test_the_environment_is_checked_like_the_command_line(rubato):
    from conftest import environment
    result = rubato("train", "linear", env=environment(RUBATO_EPOCHS="many"))
    assert result.returncode == 2
    assert result.stderr.startswith('rubato: error: environment variable "RUBATO_EPOCHS" needs a '
                                    'whole number from 1 to 1000000, got "many"\n')


def test_control_characters_do_not_reach_the_terminal(rubato):
    result = rubato("\x1b[31mred\n")
    assert result.returncode == 2
    assert result.stderr.splitlines()[0] == 'rubato: error: unrecognised command "?[31mred?"'
