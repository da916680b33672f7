"""Command line ``ascpipe COMMAND``. Each command is a module, which is imported when the command is called.

Exit codes: 0 success, 1 failure, 2 wrong usage, 3 daemon not running. ``run`` returns the exit code of its program.
"""
import importlib
import sys
from typing import Any, List, Optional

import click

from ascpipe import __version__
from ascpipe.cli import near_verbs
from ascpipe.errors import AscpipeError, ConfigError, NameRefusedError, NotRunningError
from ascpipe.logs import one_line

FAILED = 1
USAGE = 2
NOT_RUNNING = 3

_GROUPS = (
    ("Daemons and programs", ("start", "stop", "run", "list", "status", "logs")),
    ("While it trains", ("stats", "top", "dashboard", "inspect", "hotkeys", "trace", "timeline")),
    ("After a run", ("report", "tune")),
    ("Checkpoints and tables", ("checkpoint", "plan")),
    ("Training data", ("data",)),
    ("This machine", ("doctor", "config", "warmup", "clean", "library")),
    ("Help", ("explain", "completion")),
)
_VERBS = tuple(verb for _, verbs in _GROUPS for verb in verbs)


class _Verbs(near_verbs.Group):
    """Click group that imports a command's module when the command is called. An ascpipe error is printed as one line.
    """

    def list_commands(self, ctx: click.Context) -> List[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> Optional[click.Command]:
        if cmd_name not in _VERBS:
            return None
        command = importlib.import_module("ascpipe.cli." + cmd_name).command
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, verbs in _GROUPS:
            commands = [(verb, self.get_command(ctx, verb)) for verb in verbs]
            width = formatter.width - 6 - max(map(len, _VERBS))
            with formatter.section(title):
                formatter.write_dl([(verb.ljust(max(map(len, _VERBS))), found.get_short_help_str(width))
                                    for verb, found in commands if found is not None])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except AscpipeError as error:
            click.echo("ascpipe: {}".format(one_line(str(error))), err=True)
            sys.exit(exit_code(error))


def exit_code(error: AscpipeError) -> int:
    """Return the exit code for an ascpipe error."""
    if isinstance(error, NotRunningError):
        return NOT_RUNNING
    return USAGE if isinstance(error, (ConfigError, NameRefusedError)) else FAILED


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]}, invoke_without_command=True,
             no_args_is_help=True)
@click.option("--version", is_flag=True, help="Print the version of ascpipe.")
@click.option("--verbose", is_flag=True, help="With --version: also print versions of Python, TensorFlow and the ops.")
@click.pass_context
def main(context: click.Context, version: bool, verbose: bool) -> None:
    """Daemon that prepares batches of sparse features ahead of training."""
    if version:
        click.echo("ascpipe, version {}".format(__version__))
        if verbose:
            from ascpipe.cli.versions import lines

            click.echo("\n".join(lines()))
        context.exit()
    if verbose:
        raise click.UsageError("--verbose is for --version")
    if context.invoked_subcommand is None:
        raise click.UsageError("Missing command.")
