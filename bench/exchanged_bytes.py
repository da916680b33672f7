"""Bytes that ranks of the model of ``ranks`` exchange in a step, and a lower bound with copies of hot rows.

    python -m bench.exchanged_bytes [--rows-of-a-rank 4096] [--dim 16] [--ranks 2 --ranks 4]

A received row has 4 * dim bytes, and its gradient, which is sent back, has the same size. The key has 8 bytes, and its
position in the answer has 4 bytes. A row is hot if all ranks use the row in nine of ten batches.

Each rank can have a copy of a hot row if all ranks apply the same sum of gradients. Either the owner receives the
gradients and sends their sum to the other ranks, or each rank sends its gradients to all other ranks. In neither case
is the key of the row sent.
"""
from typing import NamedTuple, Tuple

import click
import numpy as np

from bench import train_sides, workloads

BATCHES = 20  #: number of batches
PART = 0.9  #: share of the batches in which all ranks use a hot row
KEY_BYTES = 12


class Asked(NamedTuple):
    """Keys that the ranks of a step use, as means over batches.

    Attributes:
        distinct: number of distinct keys of one rank.
        hot: number of these keys that are hot.
    """

    distinct: float
    hot: float


def asked(ranks: int, rows_of_a_rank: int) -> Asked:
    """Draw batches, and count their keys."""
    keys = train_sides.rows()
    stream = workloads.Zipf(keys, workloads.DISTRIBUTIONS["zipf-1.05"], seed=1)
    everywhere = np.zeros(keys, np.int32)
    distinct = 0
    for _ in range(BATCHES):
        times = np.zeros(keys, np.int32)
        for _ in range(ranks):
            found = np.unique(stream.ranks(rows_of_a_rank * workloads.FEATURES))
            distinct += len(found)
            times[found] += 1
        everywhere += times == ranks
    return Asked(distinct / (BATCHES * ranks), float(np.count_nonzero(everywhere >= PART * BATCHES)))


def sent_bytes(of: Asked, ranks: int, dim: int) -> Tuple[float, float, float]:
    """Return the bytes that a rank sends in a step in three cases: without copies, with sums of hot rows from their
    owners, and with gradients of hot rows to all ranks.
    """
    others = (ranks - 1) / ranks  # the rank itself owns the remaining keys
    now = of.distinct * others * (8 * dim + KEY_BYTES)
    sums = now - of.hot * others * KEY_BYTES
    gathered = (of.distinct - of.hot) * others * (8 * dim + KEY_BYTES) + of.hot * (ranks - 1) * 4 * dim
    return now, sums, gathered


@click.command()
@click.option("--rows-of-a-rank", default=4096, show_default=True, help="Rows of a rank's batch.")
@click.option("--dim", default=16, show_default=True, help="Floats of a row.")
@click.option("--ranks", multiple=True, default=(2, 4, 8, 16), show_default=True, help="Number of ranks; repeatable.")
def main(rows_of_a_rank: int, dim: int, ranks: Tuple[int, ...]) -> None:
    """Print a line for each number of ranks."""
    print("ranks  distinct keys     hot  MB sent  hot rows summed by owners  gradients of hot rows to all")
    for count in ranks:
        of = asked(count, rows_of_a_rank)
        now, sums, gathered = sent_bytes(of, count, dim)
        print("{:5}  {:13,.0f}  {:6,.0f}  {:7.3f}  {:14.3f} ({:+.1f} %)  {:17.3f} ({:+.1f} %)".format(
            count, of.distinct, of.hot, 1e-6 * now, 1e-6 * sums, 100 * (sums / now - 1), 1e-6 * gathered,
            100 * (gathered / now - 1)))


if __name__ == "__main__":
    main()
