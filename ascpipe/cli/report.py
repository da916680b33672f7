"""Command ``ascpipe report``, which writes an HTML page about a run, also while the run continues."""
import json
from typing import Optional

import click

from ascpipe.control import run_record


@click.command("report", help="Write a report of a run as one HTML file; without --html and --json, list the runs.",
               short_help="Write a report of a run as an HTML file.")
@click.argument("run", required=False, metavar="[RUN]")
@click.option("--last", is_flag=True, help="Use the newest run.")
@click.option("--html", "path", type=click.Path(dir_okay=False, writable=True), default=None, metavar="FILE",
              help="HTML file to write.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures of the run as JSON.")
def command(run: Optional[str], last: bool, path: Optional[str], as_json: bool) -> None:
    """Read the record that the daemon has written, and write the statistics of the run."""
    from ascpipe.figures.advice import advice_of
    from ascpipe.report.figures import figures_of, is_running, other_records, record_of
    from ascpipe.report.page import page

    if path is None and not as_json:
        if run is not None or last:
            raise click.UsageError("Missing option '--html' or '--json'")
        click.echo("\n".join(run_record.names()) or "there are no recorded runs in {}".format(run_record.base_dir()))
        return
    record = record_of(run, last)
    figures = figures_of(record, other_records(record), running=is_running(record))
    advice = advice_of(figures)
    if as_json:
        click.echo(json.dumps({**figures, "advice": [one._asdict() for one in advice]}, indent=2))
    if path is not None:
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(page("ascpipe: run " + record.name, figures, advice))
        except OSError as error:
            raise click.FileError(path, error.strerror or str(error)) from error
