"""Click group that suggests similar commands if a command is misspelt."""
import difflib
from typing import List, Optional, Tuple

import click


class Group(click.Group):
    """Click group that suggests similar commands if a command does not exist."""

    def resolve_command(self, ctx: click.Context,
                        args: List[str]) -> Tuple[Optional[str], Optional[click.Command], List[str]]:
        """Return a command's name, the command, and the arguments. Raise ``UsageError`` if the command does not exist.
        """
        verbs = self.list_commands(ctx)
        if args[0] in verbs or args[0].startswith("-"):
            return super().resolve_command(ctx, args)
        near = difflib.get_close_matches(args[0], verbs, 2)
        hint = "Did you mean {}?".format(" or ".join(near)) if near else "`{} -h` lists all.".format(ctx.command_path)
        raise click.UsageError("No such command {!r}. {}".format(args[0], hint), ctx)
