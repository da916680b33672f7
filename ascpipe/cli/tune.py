"""Command ``ascpipe tune``, which prints the recommended changes for the next run, and can try one of them."""
import json
import os
import shlex
import subprocess
from typing import TYPE_CHECKING, List, Optional, Tuple

import click

from ascpipe.cli import printing
from ascpipe.control import run_record
from ascpipe.logs import one_line

if TYPE_CHECKING:
    from ascpipe.figures.advice import Advice


@click.command("tune", help="Print what to change for the next run, with the expected gain. The default is the newest "
                            "run.", short_help="Print changes for the next run.")
@click.argument("run", required=False, metavar="[RUN]")
@click.option("--last", is_flag=True, help="Use the newest run.")
@click.option("--try", "trial", default=None, metavar="COMMAND",
              help="Run COMMAND with the first recommended setting, and print what has changed. COMMAND is the command "
                   "of the run, such as 'python train.py'.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(run: Optional[str], last: bool, trial: Optional[str], as_json: bool) -> None:
    """Print the recommendations from a run's report, or the result of a trial."""
    from ascpipe.figures.advice import advice_of, gain_text
    from ascpipe.report.figures import figures_of, record_of

    record = record_of(run, last)
    advice = advice_of(figures_of(record))
    if trial is not None:
        _try(record, advice, trial, as_json)
        return
    if as_json:
        click.echo(json.dumps([one._asdict() for one in advice], indent=2))
        return
    click.echo("run {}".format(record.name))
    for number, one in enumerate(advice, 1):
        click.echo(one_line("{}. {}. {}. {}".format(number, one.change, one.reason, gain_text(one))))
    if not advice:
        click.echo("The figures of this run suggest no change.")


def _try(record: run_record.Record, advice: "List[Advice]", trial: str, as_json: bool) -> None:
    """Run a command with the first recommended setting. Print the differences between the two runs."""
    from ascpipe.figures.advice import gain_text
    from ascpipe.report.figures import figures_of, record_of
    from ascpipe.report.trial import changes, gain

    one = next((one for one in advice if one.setting is not None), None)
    if one is None or one.setting is None:
        raise click.ClickException("No change that run {} suggests is a setting of ascpipe, so there is nothing to "
                                   "try. `ascpipe tune` prints the suggested changes.".format(record.name))
    after = record_of(_recorded(trial, one.setting), last=False)
    before_figures = figures_of(record)
    after_figures = figures_of(after)
    found = changes(before_figures, after_figures)
    seen = gain(before_figures, after_figures)
    if as_json:
        click.echo(json.dumps({"before": record.name, "after": after.name, "setting": dict([one.setting]),
                               "expected_gain": one.gain, "gain": seen,
                               "changes": [change._asdict() for change in found]}, indent=2))
        return
    text = "-" if seen is None else "{:+.0f} %".format(100 * seen)
    printing.show([one_line("{}: {} steps per second. {}".format(one.change, text, gain_text(one)))],
                  [("", ["figure", record.name, after.name], [list(change) for change in found])])


def _recorded(trial: str, setting: Tuple[str, int]) -> str:
    """Run a command with a setting. Return the name of the record of its run."""
    (name, value) = setting
    known = set(run_record.names())
    variable = "ASCPIPE_" + name.upper()
    try:
        code = subprocess.run(shlex.split(trial), env={**os.environ, variable: str(value)}, check=False).returncode
    except (OSError, ValueError) as error:
        raise click.BadParameter("{!r} cannot be run: {}".format(trial, error), param_hint="--try") from error
    if code != 0:
        raise click.ClickException("{!r} exited with {}, so there is no result.".format(trial, code))
    new = [one for one in run_record.names() if one not in known]
    applied = [one for one in new if run_record.read(one).head["settings"].get(name) == value]
    if not applied:
        raise click.ClickException(
            "{!r} has recorded {} with {}={}. A daemon that was started before the program does not read {}; restart "
            "it with this setting.".format(trial, "no run" if not new else "a run, but not one", name, value, variable))
    return applied[0]
