"""``ascpipe explain``: what an error code means, what became of the data, what to do."""
import difflib
import json
import textwrap
from typing import List, Optional

import click

from ascpipe.errors.explanations import EXPLANATIONS, Explanation

_WIDTH = 100
_MARKDOWN_WIDTH = 120
_HEAD = """# Errors

Errors of ascpipe have a code, which is stable. `ascpipe explain E122` prints what is here. This page is made by
`ascpipe explain --markdown > docs/reference/errors.md`, of `ascpipe/errors/explanations.py`.
"""


@click.command("explain", help="Explain an error code, such as E122; without one, list all.")
@click.argument("code", required=False)
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
@click.option("--markdown", is_flag=True, help="The page of the documents, with all codes.")
def command(code: Optional[str], as_json: bool, markdown: bool) -> None:
    """No daemon is asked."""
    if markdown:
        click.echo(page(), nl=False)
        return
    wanted = EXPLANATIONS if code is None else {known(code): EXPLANATIONS[known(code)]}
    if as_json:
        click.echo(json.dumps({name: dict(found._asdict()) for name, found in wanted.items()}, indent=2))
    elif code is None:
        for name, found in wanted.items():
            click.echo(textwrap.fill(found.what, _WIDTH, initial_indent=name + "  ", subsequent_indent=6 * " "))
    else:
        for name, found in wanted.items():
            click.echo("\n".join(lines(name, found)))


def known(code: str) -> str:
    """A code as it is written here; also of ``e122``, ``122`` and ``E122:``.

    Raises:
        click.BadParameter: there is none; names the nearest.
    """
    name = code.strip().rstrip(":").upper()
    name = name if name.startswith("E") else "E" + name
    if name not in EXPLANATIONS:
        near = difflib.get_close_matches(name, EXPLANATIONS, 3)
        raise click.BadParameter("there is no code {!r}{}".format(
            code, "; there are " + ", ".join(near) if near else ""), param_hint="CODE")
    return name


def lines(name: str, found: Explanation) -> List[str]:
    """The explanation of a code as text."""
    return [name, *(textwrap.fill(text, _WIDTH, initial_indent="  {:<6}".format(title), subsequent_indent=8 * " ",
                                  break_on_hyphens=False)
                    for title, text in (("what", found.what), ("data", found.data), ("cure", found.cure)))]


def page() -> str:
    """All of them as a document."""
    parts = [_HEAD]
    for name, found in EXPLANATIONS.items():
        parts.append("\n".join(textwrap.fill(
            text, _MARKDOWN_WIDTH, initial_indent=before, subsequent_indent="  ", break_on_hyphens=False,
            break_long_words=False) for before, text in (
                ("- **{}**: ".format(name), found.what), ("  Data: ", found.data), ("  Cure: ", found.cure))) + "\n")
    return "\n".join(parts[:1]) + "\n" + "".join(parts[1:])
