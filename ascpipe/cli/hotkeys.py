"""Command ``ascpipe hotkeys``, which shows the most frequent keys of a table in a running daemon."""
import json
from typing import Optional

import click

from ascpipe.cli import printing
from ascpipe.cli.chosen import name_option
from ascpipe.cli.readers import table_reader

_SAMPLED_S = 3.0  # default duration of the sample if the table does not count occurrences


@click.command("hotkeys", help="Show the most frequent keys of a table.")
@click.argument("table")
@click.option("-n", "--count", type=click.IntRange(1, 100_000), default=20, show_default=True, help="Number of keys.")
@click.option("--sample", "seconds", type=click.FloatRange(0.1, 3600), default=None, metavar="SECONDS",
              help="Count the ids of the batches in flight during this time. Default: the table's counts, or a sample "
                   "of 3 s if the table has no counts.")
@name_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(table: str, count: int, seconds: Optional[float], name: Optional[str], as_json: bool) -> None:
    """Print the most frequent keys, from the table's counts or from a sample. The output names the source."""
    with table_reader(name, table) as (reader, status):
        if seconds is None and not reader.has_counts:
            seconds = _SAMPLED_S
        found = reader.hottest(count) if seconds is None else reader.sample(count, seconds)
    if as_json:
        click.echo(json.dumps({
            "table": table, "by": "counts" if seconds is None else "sample", "seconds": seconds,
            "batches": found.batches, "occurrences": found.occurrences,
            "keys": [{"key": key, "count": times} for key, times in found.keys]}, indent=2))
        return
    by = "by the number of occurrences that the table has counted" if seconds is None else \
        "by a sample of {} batches within {:g} s".format(found.batches, seconds)
    rows = [[str(key), "{:,}".format(times), "{:.2f} %".format(100 * times / max(1, found.occurrences))]
            for key, times in found.keys]
    printing.show(["table {!r}, {:,} keys, {}".format(table, status["keys"], by)],
                  [("", ["key", "count", "share"], rows)] if rows else [])
