"""What a step of many ranks takes, by the model of docs/internals/scaling.md: a sum of what was measured on few.

    python -m bench.scaling [--rows 4096] [--delay-ms 0.05] [--dim 16] [--cores 2]
"""
from typing import List, NamedTuple

import click

#: Of the model of ``ranks``, measured on two cores (docs/internals/scaling.md says by what).
EXAMPLE_S = 4.74e-6  # of a processor, for an example of one rank
SHARING_S = 11.5e-3  # more for a step of one of two ranks: keys and rows of others, Horovod
EXCHANGE_S = 0.14e-3  # more for an exchange for each further rank
EXCHANGES = 2
WAITS = 20.0  # times that a step waits for a packet, with any number of ranks
WAITS_OF_A_RANK = 8.5  # more such waits for each rank
DISTINCT = {512: 5991, 1024: 10832, 4096: 34535, 8192: 60618}  # keys of a rank's batch, by its rows
KEY_BYTES = 12  # that travel with a row
HEADER_BYTES = 512  # that travel with each message
DENSE_BYTES = 118.5e3  # gradients of the dense layers
GBIT_S = (1, 10, 100)


class Step(NamedTuple):
    """Of one rank.

    Attributes:
        sent_bytes: that it sends, which is also what it receives.
        processor_s: that its own processors need; what grows with the ranks is the work of one thread.
        waits_s: for packets on their way, whatever their size.
    """

    sent_bytes: float
    processor_s: float
    waits_s: float

    def seconds(self, gbit_s: float) -> float:
        """With a wire that carries so much in each direction."""
        return self.processor_s + self.waits_s + 8e-9 * self.sent_bytes / gbit_s


def step(ranks: int, rows: int, *, dim: int, delay_s: float, cores: int) -> Step:
    """A step of ``ranks`` of them.

    Args:
        ranks: 2 or more.
        rows: of the batch of one rank, one of ``DISTINCT``.
        dim: numbers of a row.
        delay_s: from one rank to another, one way.
        cores: of one rank.
    """
    others = (ranks - 1) / ranks
    rows_bytes = DISTINCT[rows] * others * (2 * 4 * dim + KEY_BYTES)
    headers = EXCHANGES * HEADER_BYTES * (ranks - 1)
    return Step(rows_bytes + headers + 2 * others * DENSE_BYTES,
                (rows * EXAMPLE_S + SHARING_S) / cores + EXCHANGES * EXCHANGE_S * (ranks - 2),
                (WAITS + WAITS_OF_A_RANK * ranks) * delay_s)


def table(rows: int, *, dim: int, delay_s: float, cores: int) -> List[str]:
    """A line for each number of ranks."""
    lines = ["| ranks | MB sent | processor ms | waits ms | " + " | ".join(
        "step at {} Gbit/s".format(gbit_s) for gbit_s in GBIT_S) + " |", "|---" * (4 + len(GBIT_S)) + "|"]
    for ranks in (2, 4, 16, 64, 256, 1024):
        of = step(ranks, rows, dim=dim, delay_s=delay_s, cores=cores)
        lines.append("| {:,} | {:.2f} | {:.1f} | {:.1f} | {} |".format(
            ranks, 1e-6 * of.sent_bytes, 1e3 * of.processor_s, 1e3 * of.waits_s,
            " | ".join("{:.0f} ms".format(1e3 * of.seconds(gbit_s)) for gbit_s in GBIT_S)))
    return lines


@click.command()
@click.option("--rows", default=4096, show_default=True, type=int, help="Of the batch of a rank.")
@click.option("--dim", default=16, show_default=True, help="Numbers of a row.")
@click.option("--delay-ms", default=0.05, show_default=True, help="From one rank to another, one way.")
@click.option("--cores", default=2, show_default=True, help="Of a rank.")
def main(rows: int, dim: int, delay_ms: float, cores: int) -> None:
    """Print the table."""
    click.echo("\n".join(table(int(rows), dim=dim, delay_s=1e-3 * delay_ms, cores=cores)))


if __name__ == "__main__":
    main()
