"""A group of verbs that suggests the nearest verb for a misspelt one."""
import difflib
from typing import List, Optional, Tuple

import click


class Group(click.Group):
    """Suggests the nearest verb, or all verbs of a small group, if a verb does not exist."""

    def resolve_command(self, ctx: click.Context,
                        args: List[str]) -> Tuple[Optional[str], Optional[click.Command], List[str]]:
        """Resolve as click does, but raise a usage error for an unknown verb."""
        verbs = self.list_commands(ctx)
        if args[0] in verbs or args[0].startswith("-"):
            return super().resolve_command(ctx, args)
        near = difflib.get_close_matches(args[0], verbs, 2)
        hint = "Did you mean {}?".format(" or ".join(near)) if near else "`{} -h` lists all.".format(ctx.command_path)
        raise click.UsageError("No such command {!r}. {}".format(args[0], hint), ctx)
