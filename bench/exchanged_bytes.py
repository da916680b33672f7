"""What ranks of the model of ``ranks`` exchange in a step, and the least that copies of hot rows would leave of it.

    python -m bench.exchanged_bytes [--rows-of-a-rank 4096] [--dim 16] [--ranks 2 --ranks 4]

A row that a rank gets is 4 * dim bytes, so is the gradient that it sends back; its key takes 8 bytes and its place in
the answer 4. A row is hot if every rank asks for it in nine of ten batches. It can stand on every rank only if every
rank applies the same sum of gradients to it: the owner sums what the others send it and sends them the sum, or each
rank sends its gradients to all others and adds them up itself. Either way its key need not travel.
"""
from typing import NamedTuple, Tuple

import click
import numpy as np

from bench import train_sides, workloads

BATCHES = 20  #: that are looked at
PART = 0.9  #: of these batches ask all ranks for a hot row
KEY_BYTES = 12


class Asked(NamedTuple):
    """What the ranks of a step ask for, the mean over batches.

    Attributes:
        distinct: keys of one rank.
        hot: those of them that are hot.
    """

    distinct: float
    hot: float


def asked(ranks: int, rows_of_a_rank: int) -> Asked:
    """By drawing batches."""
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
    """That a rank sends in a step: now; if owners send sums of hot rows; if gradients of hot rows go to all ranks."""
    others = (ranks - 1) / ranks  # a part of the keys is the rank's own
    now = of.distinct * others * (8 * dim + KEY_BYTES)
    sums = now - of.hot * others * KEY_BYTES
    gathered = (of.distinct - of.hot) * others * (8 * dim + KEY_BYTES) + of.hot * (ranks - 1) * 4 * dim
    return now, sums, gathered


@click.command()
@click.option("--rows-of-a-rank", default=4096, show_default=True, help="Rows of a rank's batch.")
@click.option("--dim", default=16, show_default=True, help="Numbers of a row.")
@click.option("--ranks", multiple=True, default=(2, 4, 8, 16), show_default=True, help="How many ranks.")
def main(rows_of_a_rank: int, dim: int, ranks: Tuple[int, ...]) -> None:
    """A line for each number of ranks."""
    print("ranks  distinct keys     hot  MB sent  hot rows summed by owners  gradients of hot rows to all")
    for count in ranks:
        of = asked(count, rows_of_a_rank)
        now, sums, gathered = sent_bytes(of, count, dim)
        print("{:5}  {:13,.0f}  {:6,.0f}  {:7.3f}  {:14.3f} ({:+.1f} %)  {:17.3f} ({:+.1f} %)".format(
            count, of.distinct, of.hot, 1e-6 * now, 1e-6 * sums, 100 * (sums / now - 1), 1e-6 * gathered,
            100 * (gathered / now - 1)))


if __name__ == "__main__":
    main()
