"""Generator of rows in the Criteo format with learnable labels. No download is needed.

    python -m examples.dlrm.generator rows.tsv --rows 60000 --seed 1

Each field has a number of distinct values, which are drawn with a bounded Zipf law. Each value has a hidden weight. The
probability of a click depends on the sum of the row's weights. The same arguments result in the same file.
"""
import argparse
import sys
from typing import BinaryIO, List, Optional

import numpy as np

from examples.dlrm import criteo

#: maximum number of distinct values of each field; like in real click logs, few fields have many values
FIELD_VALUES = (
    160, 370, 20000, 12000, 50, 8, 3000, 80, 3, 2600, 1900, 18000, 1600, 22, 1800, 15000, 9, 1100, 480, 4, 16000, 8, 12,
    2200, 38, 1600,
)
#: share of empty values per field
FIELD_MISSING = (
    0, 0, .03, .03, 0, .13, 0, 0, 0, 0, 0, .03, 0, 0, 0, .03, 0, 0, .45, .45, .03, .8, 0, .03, .45, .45,
)
DENSE_SCALE = (3, 30, 10, 5, 8000, 80, 15, 12, 90, 1, 3, 1, 8)  #: typical size of each numeric column
DENSE_MISSING = .15
ZIPF_EXPONENT = 1.1
CLICK_ODDS = -1.4  #: log-odds of a row whose weights sum to 0
FIELD_SIGNAL = .45  #: standard deviation of a value's weight
DENSE_SIGNAL = .25
CHUNK_ROWS = 8192


class Rows:
    """Hidden model of one seed. ``write`` draws rows from the model."""

    def __init__(self, seed: int) -> None:
        hidden = np.random.RandomState(seed)
        # Each field has separate weights, because shared weights would correlate the fields.
        self._weights = [hidden.normal(0, FIELD_SIGNAL, size=values + 1) for values in FIELD_VALUES]
        self._dense_weights = hidden.normal(0, DENSE_SIGNAL, size=criteo.DENSE_COUNT)
        self._texts = [_texts(hidden, values) for values in FIELD_VALUES]
        self._cuts = [_zipf_cuts(values) for values in FIELD_VALUES]
        self._draw = np.random.RandomState(hidden.randint(2 ** 31))

    def write(self, out: BinaryIO, rows: int) -> None:
        """Append ``rows`` lines to ``out``."""
        for start in range(0, rows, CHUNK_ROWS):
            out.write(b"\n".join(self._lines(min(CHUNK_ROWS, rows - start))) + b"\n")

    def _lines(self, n: int) -> List[bytes]:
        odds = np.full(n, CLICK_ODDS)
        columns: List[np.ndarray] = []
        for column, scale in enumerate(DENSE_SCALE):
            numbers = np.floor(self._draw.exponential(scale, size=n)).astype(np.int64)
            texts = np.char.mod(b"%d", numbers)
            missing = self._draw.random_sample(n) < DENSE_MISSING
            odds += np.where(missing, 0, self._dense_weights[column] * (np.log1p(numbers) - np.log1p(scale)))
            columns.append(np.where(missing, b"", texts))
        for field, values in enumerate(FIELD_VALUES):
            drawn = np.searchsorted(self._cuts[field], self._draw.random_sample(n))
            drawn[self._draw.random_sample(n) < FIELD_MISSING[field]] = values  # the last text is empty
            odds += self._weights[field][drawn]
            columns.append(self._texts[field][drawn])
        clicks = self._draw.random_sample(n) < 1 / (1 + np.exp(-odds))
        columns.insert(0, np.where(clicks, b"1", b"0"))
        return [b"\t".join(row) for row in zip(*(column.tolist() for column in columns))]


def _texts(hidden: np.random.RandomState, values: int) -> np.ndarray:
    """Return bytes[values + 1]: the 8 distinct digits of each value, followed by the empty text."""
    odd, offset = hidden.randint(2 ** 31) * 2 + 1, hidden.randint(2 ** 31)
    # The product with an odd number is a bijection of 32-bit numbers.
    numbers = (np.arange(values, dtype=np.uint64) * np.uint64(odd) + np.uint64(offset)) & np.uint64(0xFFFFFFFF)
    return np.array([b"%08x" % number for number in numbers.tolist()] + [b""])


def _zipf_cuts(values: int) -> np.ndarray:
    """Return float64[values]: cumulative probabilities of ranks 1 to ``values``."""
    shares = np.arange(1, values + 1, dtype=np.float64) ** -ZIPF_EXPONENT
    cuts = np.cumsum(shares / shares.sum())
    cuts[-1] = 1.0  # the last value must be 1 despite rounding
    return cuts


def write_file(path: str, rows: int, seed: int) -> None:
    """Write a data file of ``rows`` lines."""
    with open(path, "wb") as out:
        Rows(seed).write(out, rows)


def main(arguments: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m examples.dlrm.generator", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("path", help="file to write")
    parser.add_argument("--rows", type=int, default=60000)
    parser.add_argument("--seed", type=int, default=1, help="0 to 2**32 - 1")
    options = parser.parse_args(arguments)
    if options.rows < 1:
        parser.error("--rows must be at least 1, not {}".format(options.rows))
    if not 0 <= options.seed < 2 ** 32:
        parser.error("--seed must lie in [0, 2**32), not {}".format(options.seed))
    write_file(options.path, options.rows, options.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
