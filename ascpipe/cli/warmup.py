"""Command ``ascpipe warmup``, which compiles the kernels of the workers in advance, so that the first daemon starts
fast.
"""
import json

import click

from ascpipe.cli.setting_options import config_option


@click.command("warmup", help="Compile the workers' kernels, if they are missing or damaged.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@config_option
def command(as_json: bool) -> None:
    """Compile the kernels, and print the folder that contains the compiled kernels.

    The compilation needs less than 1 min. If the kernels exist, the command needs 1 s.
    """
    from ascpipe.config import load_settings
    from ascpipe.daemon.warm_up import warm_up

    warm = warm_up(load_settings().cache_dir)
    if as_json:
        click.echo(json.dumps(warm._asdict(), indent=2))
        return
    click.echo("ascpipe: the kernels {} compiled, in {}{}".format(
        "are now" if warm.is_new else "were already", warm.library or warm.folder,
        "; {} damaged files were removed".format(warm.damaged) if warm.damaged else ""))
    if warm.unlinked:
        click.echo("ascpipe: no kernel library was built ({}): each daemon takes half a second longer to start".format(
            warm.unlinked))
