"""Command ``ascpipe tune``, which prints the recommended changes for the next run."""
import json
from typing import Optional

import click

from ascpipe.logs import one_line


@click.command("tune", help="Print what to change for the next run, with the expected gain. The default is the newest "
                            "run.", short_help="Print changes for the next run.")
@click.argument("run", required=False, metavar="[RUN]")
@click.option("--last", is_flag=True, help="Use the newest run.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(run: Optional[str], last: bool, as_json: bool) -> None:
    """Print the recommendations from a run's report."""
    from ascpipe.report.advice import advice_of
    from ascpipe.report.figures import figures_of, record_of
    from ascpipe.report.page import gain_text

    record = record_of(run, last)
    advice = advice_of(figures_of(record))
    if as_json:
        click.echo(json.dumps([one._asdict() for one in advice], indent=2))
        return
    click.echo("run {}".format(record.name))
    for number, one in enumerate(advice, 1):
        click.echo(one_line("{}. {}. {}. {}".format(number, one.change, one.reason, gain_text(one))))
    if not advice:
        click.echo("The figures of this run suggest no change.")
