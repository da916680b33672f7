"""Commands ``ascpipe checkpoint`` that read or write rows. The commands need neither TensorFlow nor a daemon."""
import contextlib
import json
import sys
from typing import Any, Callable, Iterator, Optional, Sequence, Tuple

import click

from ascpipe.logs import counted, one_line

_MIB = float(1 << 20)

_table = click.option("--table", required=True, metavar="TABLE", help="Name of the table.")
as_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command("export", help="Write the rows of a table into a new directory, ordered by key. CHECKPOINT is "
                              "DIR/BASE-STEP.")
@click.argument("checkpoint", metavar="CHECKPOINT")
@_table
@click.option("--to", required=True, metavar="DIR", type=click.Path(), help="Directory to create.")
@click.option("--format", "file_format", default="parquet", show_default=True,
              type=click.Choice(["parquet", "npy", "tsv"]), help="Format of the files; parquet needs pyarrow.")
@click.option("--slots", is_flag=True, help="Also write the optimizer slots.")
@click.option("--counts", is_flag=True, help="Also write the occurrence count and the timestamp of each key.")
@click.option("--where", default=None, metavar="CONDITION",
              help="Rows to write, such as 'count>=10'. A condition compares key, count or timestamp with a number; "
                   "`and` joins comparisons.")
@click.option("--dtype", default="float32", show_default=True, type=click.Choice(["float32", "float16"]),
              help="Type of the floats in the files.")
@as_json_option
def export_command(checkpoint: str, as_json: bool, **given: Any) -> None:
    """Export rows and print the directory and the number of rows."""
    from ascpipe.rows import manifest
    from ascpipe.rows.export import Request, exported

    request = Request(checkpoint, **given)
    with bar("export") as progress:
        found = exported(request, progress)
    size = sum(file.size for file in found.files.values())
    line = "{}  {}  {} of table {}, {:.1f} MiB, columns {}".format(
        found.file_format, request.to, counted(found.rows, "row"), found.table, size / _MIB,
        ", ".join(column.name for column in found.columns))
    shown({"directory": request.to, **manifest.described(found)}, [line], as_json=as_json)


@click.command("import", help="Write a new checkpoint with the content of CHECKPOINT, DIR/BASE-STEP, and the rows of "
                              "FROM. FROM is the directory of an export, or Parquet, npy or TSV files.")
@click.argument("source", metavar="FROM")
@click.option("--into", required=True, metavar="CHECKPOINT", help="Checkpoint to start from.")
@_table
@click.option("--merge", default="replace", show_default=True, type=click.Choice(["keep", "replace"]),
              help="For a key that the table already has: keep the row of CHECKPOINT, or use the row of FROM.")
@click.option("--pad", is_flag=True, help="Append zeros to rows that are shorter than the rows of the table.")
@click.option("--truncate", is_flag=True,
              help="Drop the last floats of rows that are longer than the rows of the table.")
@click.option("--to", default=None, metavar="DIR/BASE-STEP",
              help="Name of the new checkpoint. Default: BASE-imported-STEP beside CHECKPOINT.")
@as_json_option
def import_command(source: str, as_json: bool, **given: Any) -> None:
    """Import rows, and print the name of the new checkpoint and the row counts."""
    from ascpipe.rows.imports import Request, imported

    with bar("import") as progress:
        found = imported(Request(source=source, **given), progress)
    shown(found._asdict(), ["{}  table {}: {} added, {} replaced, {} kept, {} in total".format(
        found.checkpoint, found.table, counted(found.added, "row"), found.replaced, found.kept, found.rows)],
        as_json=as_json)


@click.command("rename", help="Write a new full checkpoint with the content of CHECKPOINT, DIR/BASE-STEP, and new "
                              "names of tables.")
@click.argument("checkpoint", metavar="CHECKPOINT")
@click.argument("names", metavar="OLD=NEW...", nargs=-1, required=True)
@click.option("--to", default=None, metavar="DIR/BASE-STEP",
              help="Name of the new checkpoint. Default: BASE-renamed-STEP beside CHECKPOINT.")
@as_json_option
def rename_command(checkpoint: str, names: Tuple[str, ...], to: Optional[str], as_json: bool) -> None:
    """Rename tables and print the name of the new checkpoint."""
    from ascpipe.rows.renames import renamed

    pairs = [name.partition("=") for name in names]
    for name, (old, _, new) in zip(names, pairs):
        if not old or not new or sum(old == other for other, _, _ in pairs) > 1:
            raise click.UsageError("{!r} is not OLD=NEW, or OLD occurs twice.".format(name))
    with bar("rename") as progress:
        found = renamed(checkpoint, {old: new for old, _, new in pairs}, to, progress)
    shown(found._asdict(), ["{}  {}".format(found.checkpoint, ", ".join(
        "{} is now {}".format(old, new) for old, new in found.tables.items()))], as_json=as_json)


@click.command("export-delta", help="Write the rows that changed since the last call into a directory, for servers "
                                    "that watch the directory. CHECKPOINT is DIR/BASE-STEP, or a directory, whose "
                                    "newest checkpoint is used.")
@click.argument("checkpoint", metavar="CHECKPOINT")
@click.option("--to", required=True, metavar="DIR", type=click.Path(), help="Directory of the updates.")
@click.option("--keep", default=256, show_default=True, type=click.IntRange(0, 1000000),
              help="Maximum number of deltas after a full update. A full update removes older files.")
@as_json_option
def export_delta_command(checkpoint: str, to: str, keep: int, as_json: bool) -> None:
    """Export updates and print one line for each file."""
    from ascpipe.checkpoint.updates import export_updates

    with bar("export-delta") as progress:
        found = export_updates(checkpoint, to, keep, progress)
    lines = ["{}  {}  step {}, {}, {} deleted, {:.1f} MiB".format(
        one.kind, one.path, one.step, counted(one.rows, "row"), one.deleted, one.size / _MIB) for one in found]
    shown([one._asdict() for one in found], lines or ["{} has the rows of this checkpoint already".format(to)],
          as_json=as_json)


def shown(content: Any, lines: Sequence[str], *, as_json: bool) -> None:
    """Print the result of a command: ``content`` as JSON, or ``lines``."""
    if as_json:
        click.echo(json.dumps(content, indent=2))
        return
    for line in lines:
        click.echo(one_line(line))


@contextlib.contextmanager
def bar(title: str) -> Iterator[Optional[Callable[[int, int], None]]]:
    """Context manager that shows a progress bar if stderr is a terminal.

    Yields:
        Function that receives the number of rows so far and of all rows, or None without a terminal.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(),
               TextColumn("{task.completed:.0f} of {task.total:.0f} rows"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(title, total=0)
        yield lambda done, rows: bars.update(task, completed=done, total=rows)
