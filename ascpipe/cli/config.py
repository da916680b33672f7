"""Command ``ascpipe config show``, which shows the settings and the origin of each value."""
import json
from typing import Any, Tuple

import click

from ascpipe.cli import near_verbs, printing
from ascpipe.cli.setting_options import given, setting_options
from ascpipe.config import Settings, load_settings


@click.group("config", cls=near_verbs.Group, help="Show settings.")
def command() -> None:
    """Group of commands."""


@command.command("show", help="Show the settings that a new daemon would use.")
@click.option("--origin", is_flag=True, help="Also show the origin of each value.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@setting_options
def show(origin: bool, as_json: bool, others: Tuple[str, ...], **options: Any) -> None:
    """Show the settings that a new daemon would use. A running daemon keeps the settings with which it was started."""
    settings = load_settings(given(others, **options))
    names = sorted(Settings.__fields__)
    if as_json:
        click.echo(json.dumps({name: {"value": getattr(settings, name), "origin": settings.origin_of(name)}
                               for name in names}, indent=2))
        return
    rows = [[name, str(getattr(settings, name)), *([settings.origin_of(name)] if origin else [])] for name in names]
    printing.show([], [("", ["setting", "value", *(["origin"] if origin else [])], rows)])
