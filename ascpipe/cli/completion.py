"""Command ``ascpipe completion``, which prints a completion script for a shell."""
import click


@click.command("completion", help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the script. docs/reference/command_line.md says in which file each shell expects the script."""
    from click.shell_completion import get_completion_class

    from ascpipe.cli.main import main

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError("this version of click cannot complete in {}".format(shell))
    try:
        click.echo(kind(main, {}, "ascpipe", "_ASCPIPE_COMPLETE").source())
    except RuntimeError as error:  # bash is too old
        raise click.UsageError(str(error)) from error
