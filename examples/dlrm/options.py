"""Options of the demo's command line."""
import argparse
from dataclasses import dataclass
from typing import List, Optional, Tuple

from ascpipe import ranks

#: default learning rate of each optimizer
LEARNING_RATES = {"adagrad": .05, "lazy_adam": .001, "gradient_descent": 1.0, "ftrl": .05}


#: default number of passes over the training rows; MOST_STEPS limits the number of steps
EPOCHS = 5
MOST_STEPS = 600


@dataclass(frozen=True)
class Options:
    """Options of one run of the demo. Rates are per step."""

    data: Optional[str] = None  #: path of a Criteo file; None = generate a file
    generate_rows: int = 60000
    steps: Optional[int] = None  #: None = default of ``step_count``
    batch_size: int = 256
    eval_batch_size: int = 1000
    eval_every: int = 0  #: steps between evaluations; 0 = only one evaluation at the end
    progress_every: int = 50
    optimizer: str = "adagrad"
    learning_rate: Optional[float] = None
    dim: int = 16
    bottom: Tuple[int, ...] = (32,)
    top: Tuple[int, ...] = (64, 32)
    dynamic: bool = True
    shared_table: bool = False
    device_rows: Optional[int] = None  #: rows of each table; None = enough for the file
    prefetch: int = 10
    plain: bool = False
    seed: int = 1
    threads: int = 0  #: size of TensorFlow's two thread pools; 0 = TensorFlow's default
    losses: Optional[str] = None  #: path of a file for the loss of every step
    ranks: int = 1  #: number of processes that train together, from the launcher

    @property
    def rate(self) -> float:
        """Learning rate of the run."""
        return LEARNING_RATES[self.optimizer] if self.learning_rate is None else self.learning_rate

    def step_count(self, training_rows: int) -> int:
        """Return the number of training steps for a number of training rows."""
        if self.steps is not None:
            return self.steps
        return max(1, min(MOST_STEPS, EPOCHS * training_rows // self.batch_size))


def parse(arguments: Optional[List[str]] = None) -> Options:
    """Parse a command line. Print usage and exits with code 2 if the options are invalid."""
    default = Options()
    parser = argparse.ArgumentParser(
        prog="python -m examples.dlrm.train", formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        description="Train a click model on rows in the Criteo format and evaluate it on held-out rows.")
    add = parser.add_argument
    add("--data", metavar="FILE", help="TAB-separated file: label, I1..I13, C1..C26; default: generated rows")
    add("--generate-rows", type=_count, default=default.generate_rows, help="number of rows to generate without --data")
    add("--steps", type=_count, help="training steps; the file is repeated as often as necessary; default: {} "
        "passes, at most {} steps".format(EPOCHS, MOST_STEPS))
    add("--batch-size", type=_count, default=default.batch_size)
    add("--eval-batch-size", type=_count, default=default.eval_batch_size)
    add("--eval-every", type=_count_or_0, default=default.eval_every, help="steps between evaluations; 0: at the end")
    add("--progress-every", type=_count, default=default.progress_every, help="steps between progress lines")
    add("--optimizer", choices=sorted(LEARNING_RATES), default=default.optimizer)
    add("--learning-rate", type=float, help="in (0, 10]; the default depends on the optimizer")
    add("--dim", type=_count, default=default.dim, help="length of an embedding")
    add("--bottom", type=_units, default=default.bottom, metavar="N[,N...]", help="units of the bottom MLP")
    add("--top", type=_units, default=default.top, metavar="N[,N...]", help="hidden units of the top MLP")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--dynamic", dest="dynamic", action="store_true", default=default.dynamic,
                       help="any number of distinct keys per batch (the default)")
    shape.add_argument("--static", dest="dynamic", action="store_false", help="a fixed number of keys per batch")
    add("--shared-table", action="store_true", help="one table for all fields instead of one table per field")
    add("--device-rows", type=_count, help="rows of each table; default: enough for the file")
    add("--prefetch", type=_count_or_0, default=default.prefetch, help="batches that tf.data keeps ready")
    add("--plain", action="store_true", help="use tf.Variable and embedding_lookup, for comparison")
    add("--seed", type=_count_or_0, default=default.seed)
    add("--threads", type=_count_or_0, default=default.threads, help="threads per TensorFlow pool; 0: its default")
    add("--losses", metavar="FILE", help="write the loss of every step to this file, one per line")
    count = ranks.get_rank_size() if ranks.launched() else 1
    options = Options(**vars(parser.parse_args(arguments)), ranks=count)
    if not 0 < options.rate <= 10:
        parser.error("--learning-rate must lie in (0, 10], not {}".format(options.rate))
    if options.ranks > 1 and options.plain:
        parser.error("--plain trains on one rank only")
    if options.batch_size % options.ranks:
        parser.error("--batch-size {} is no multiple of the {} ranks".format(options.batch_size, options.ranks))
    if options.dim > 8192:
        parser.error("--dim must lie in [1, 8192], not {}".format(options.dim))
    return options


def _count(text: str) -> int:
    return _at_least(1, text)


def _count_or_0(text: str) -> int:
    return _at_least(0, text)


def _at_least(least: int, text: str) -> int:
    value = int(text)
    if not least <= value < 2 ** 31:
        raise argparse.ArgumentTypeError("{} is outside [{}, 2**31)".format(value, least))
    return value


def _units(text: str) -> Tuple[int, ...]:
    return tuple(_count(part) for part in text.split(","))
