"""Estimated duration of a step of many ranks, according to the model of docs/internals/scaling.md. The parts were
measured with few ranks.

python -m bench.scaling [--rows 4096] [--delay-ms 0.05] [--dim 16] [--cores 2]
"""
from typing import List, NamedTuple

import click

#: Figures of the model of ``ranks``, measured on two cores (docs/internals/scaling.md names the programs).
EXAMPLE_S = 4.74e-6  # processor time per example of one rank
SHARING_S = 11.5e-3  # additional time per step of one of two ranks, for keys and rows of the other rank and for Horovod
EXCHANGE_S = 0.14e-3  # additional time per exchange for each additional rank
EXCHANGES = 2
WAITS = 20.0  # number of times that a step waits for a packet, with any number of ranks
WAITS_OF_A_RANK = 8.5  # additional waits for each rank
DISTINCT = {512: 5991, 1024: 10832, 4096: 34535, 8192: 60618}  # keys of a rank's batch by number of rows
KEY_BYTES = 12  # additional bytes per row
HEADER_BYTES = 512  # additional bytes per message
DENSE_BYTES = 118.5e3  # bytes of the gradients of the dense layers
GBIT_S = (1, 10, 100)


class Step(NamedTuple):
    """Parts of a step of one rank.

    Attributes:
        sent_bytes: sent bytes. The rank receives as many.
        processor_s: time of the rank's processors. The work that grows with the number of ranks uses one thread.
        waits_s: time of waits for packets, without their transfer.
    """

    sent_bytes: float
    processor_s: float
    waits_s: float

    def seconds(self, gbit_s: float) -> float:
        """Return the duration of the step with a wire of ``gbit_s`` in each direction."""
        return self.processor_s + self.waits_s + 8e-9 * self.sent_bytes / gbit_s


def step(ranks: int, rows: int, *, dim: int, delay_s: float, cores: int) -> Step:
    """Return the step of one of ``ranks`` ranks.

    Args:
        ranks: number of ranks, 2 or more.
        rows: rows of a rank's batch, one of ``DISTINCT``.
        dim: floats of a row.
        delay_s: delay from one rank to another in one direction.
        cores: number of cores of a rank.
    """
    others = (ranks - 1) / ranks
    rows_bytes = DISTINCT[rows] * others * (2 * 4 * dim + KEY_BYTES)
    headers = EXCHANGES * HEADER_BYTES * (ranks - 1)
    return Step(rows_bytes + headers + 2 * others * DENSE_BYTES,
                (rows * EXAMPLE_S + SHARING_S) / cores + EXCHANGES * EXCHANGE_S * (ranks - 2),
                (WAITS + WAITS_OF_A_RANK * ranks) * delay_s)


def table(rows: int, *, dim: int, delay_s: float, cores: int) -> List[str]:
    """Return a table with a line for each number of ranks."""
    lines = ["| ranks | MB sent | processor ms | waits ms | " + " | ".join(
        "step at {} Gbit/s".format(gbit_s) for gbit_s in GBIT_S) + " |", "|---" * (4 + len(GBIT_S)) + "|"]
    for ranks in (2, 4, 16, 64, 256, 1024):
        of = step(ranks, rows, dim=dim, delay_s=delay_s, cores=cores)
        lines.append("| {:,} | {:.2f} | {:.1f} | {:.1f} | {} |".format(
            ranks, 1e-6 * of.sent_bytes, 1e3 * of.processor_s, 1e3 * of.waits_s,
            " | ".join("{:.0f} ms".format(1e3 * of.seconds(gbit_s)) for gbit_s in GBIT_S)))
    return lines


@click.command()
@click.option("--rows", default=4096, show_default=True, type=int, help="Rows of a rank's batch.")
@click.option("--dim", default=16, show_default=True, help="Floats of a row.")
@click.option("--delay-ms", default=0.05, show_default=True, help="Delay from one rank to another, one way.")
@click.option("--cores", default=2, show_default=True, help="Cores of a rank.")
def main(rows: int, dim: int, delay_ms: float, cores: int) -> None:
    """Print the table."""
    click.echo("\n".join(table(int(rows), dim=dim, delay_s=1e-3 * delay_ms, cores=cores)))


if __name__ == "__main__":
    main()
