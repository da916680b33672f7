"""Command ``ascpipe plan``, which estimates the size of tables per tier: device, host and disk."""
import json
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import click

from ascpipe.cli import printing
from ascpipe.cli.column_options import column_options, settings_of
from ascpipe.layout.row_blocks import file_bytes

#: floats that an optimizer stores per element of an embedding
OPTIMIZERS = {"sgd": 0, "adagrad": 1, "ftrl": 2, "lazy_adam": 2}

# Upper limits of the bytes that a table needs in addition to its rows; see docs/how-to/tables.md.
_OF_KEY = 70.0
_OF_DEVICE_ROW = 4.2
_OF_CACHED_ROW = 28.2
_OF_HOST_ROW_BEFORE_DISK = 180.0
_OF_DISK_BYTES = 20.0 / 4096

_COLUMNS = ("min_buckets", "device_vocabulary_size", "host_vocabulary_size")
_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


class Shape(NamedTuple):
    """Size of a table.

    ``device_rows``, ``host_rows`` and ``ssd_rows`` are the arguments ``device_vocabulary_size``,
    ``host_vocabulary_size`` and ``ssd_vocabulary_size`` of ``create_table``.
    """

    keys: int
    dim: int
    optimizer: str
    device_rows: int
    host_rows: int
    ssd_rows: int

    @property
    def home_rows(self) -> int:
        """Number of rows in host memory. If a table has rows on disk, each device row needs one additional host row."""
        return self.host_rows + (self.device_rows if self.ssd_rows else 0)


@click.command("plan", context_settings={"allow_interspersed_args": False},
               help="Estimate the memory of a table, tier by tier, or of all tables of a program.",
               short_help="Estimate the memory of tables, tier by tier.")
@click.option("--keys", type=click.IntRange(1, 1 << 40), default=None, help="Number of keys.")
@click.option("--dim", type=click.IntRange(1, 1 << 16), default=None, help="Dimension of an embedding.")
@click.option("--optimizer", type=click.Choice(sorted(OPTIMIZERS)), default=None,
              help="Optimizer; its slots are part of each row.")
@click.option("--device-rows", type=click.IntRange(min=1), default=None,
              help="device_vocabulary_size. Default: all keys.")
@click.option("--host-rows", type=click.IntRange(min=0), default=None,
              help="host_vocabulary_size. Default: 0 if all keys are on the device, otherwise the number of keys that "
                   "are not on disk.")
@click.option("--ssd-rows", type=click.IntRange(min=0), default=0, show_default=True, help="ssd_vocabulary_size.")
@click.option("--program", type=click.Path(exists=True, dir_okay=False, readable=True), default=None, metavar="SCRIPT",
              help="Plan all tables of this program instead of one table. The program runs up to the start of its "
                   "pipeline. Arguments of the program follow the options, after --.")
@click.option("--ranks", type=click.IntRange(1, 4095), default=1, show_default=True,
              help="With --program: number of training processes on this machine.")
@click.option("--timeout", type=click.FloatRange(min=0.1), default=600.0, show_default=True, metavar="SECONDS",
              help="With --program: maximum time until the start of the pipeline.")
@column_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def command(as_json: bool, program: Optional[str], args: Tuple[str, ...], **options: Any) -> None:
    """Print estimates for full tables. The command needs no daemon."""
    of_table = {name: options[name] for name in ("keys", "dim", "optimizer")}
    if program is not None:
        from ascpipe.cli import program_plan

        if any(value is not None for value in of_table.values()):
            raise click.UsageError("--program plans the tables of a program, --keys one table: give one of them")
        columns = settings_of(options["columns"], {name: options[name] for name in _COLUMNS})
        program_plan.show(program, args, columns, options["ranks"], options["timeout"], as_json=as_json)
        return
    if args:
        raise click.UsageError("Got unexpected extra argument ({})".format(args[0]))
    missing = [name for name, value in of_table.items() if value is None]
    if missing:
        raise click.UsageError("Missing option '--{}'. A table needs --keys, --dim and --optimizer; a program needs "
                               "--program".format(missing[0]))
    _show_table(of_table, options["device_rows"], options["host_rows"], options["ssd_rows"], as_json)


def _show_table(of_table: Dict[str, Any], device_rows: Optional[int], host_rows: Optional[int], ssd_rows: int,
                as_json: bool) -> None:
    keys = of_table["keys"]
    device = keys if device_rows is None else device_rows
    if host_rows is None:
        host_rows = max(device, keys - ssd_rows) if ssd_rows or device < keys else 0
    shape = Shape(keys, of_table["dim"], of_table["optimizer"], device, host_rows, ssd_rows)
    _require_possible(shape)
    told = figures(shape)
    if as_json:
        click.echo(json.dumps({**shape._asdict(), **told}, indent=2))
        return
    rows: List[List[str]] = [[name, "{:,}".format(count), human(told[field])] for name, count, field in (
        ("rows on the device (memory of the trainer)", device, "device_bytes"),
        ("rows on the host (shared memory)", shape.home_rows, "host_bytes"),
        ("rows on disk", host_rows + ssd_rows if ssd_rows else 0, "disk_bytes"),
        ("keys: entries, index, order (daemon)", keys, "key_bytes")) if count]
    rows.append(["memory in all", "", human(told["memory_bytes"])])
    printing.show([], [("{:,} keys of dim {} with {}".format(keys, shape.dim, shape.optimizer), ["", "of", "at most"],
                        rows)])


def figures(shape: Shape) -> Dict[str, int]:
    """Return the size of a row, and upper limits for the memory and the disk space of a table.

    All sizes are in bytes.
    """
    return sizes(shape.keys, 4 * shape.dim * (1 + OPTIMIZERS[shape.optimizer]), shape.device_rows, shape.host_rows,
                 shape.ssd_rows)


def sizes(keys: int, row_bytes: int, device_rows: int, host_rows: int, ssd_rows: int) -> Dict[str, int]:
    """Return the sizes that ``figures`` returns, for rows of ``row_bytes`` bytes including optimizer slots."""
    home_rows = host_rows + (device_rows if ssd_rows else 0)
    on_disk = file_bytes(host_rows + ssd_rows, row_bytes, 1) if ssd_rows else 0
    beside = _OF_KEY * keys + (_OF_CACHED_ROW if host_rows else _OF_DEVICE_ROW) * device_rows
    if ssd_rows:
        beside += _OF_HOST_ROW_BEFORE_DISK * home_rows + _OF_DISK_BYTES * on_disk
    device = row_bytes * device_rows
    host = row_bytes * home_rows
    return {"row_bytes": row_bytes, "device_bytes": device, "host_bytes": host, "disk_bytes": on_disk,
            "key_bytes": round(beside), "memory_bytes": device + host + round(beside)}


def human(count: float) -> str:
    """Format a number of bytes with decimal prefixes, as in ``"1.28 GB"``."""
    for unit, name in _UNITS:
        if count >= unit:
            return "{:.2f} {}".format(count / unit, name)
    return "{:.0f} bytes".format(count)


def _require_possible(shape: Shape) -> None:
    """Raise ``click.UsageError`` for sizes that ``create_table`` or the first full step would reject."""
    room = shape.host_rows + shape.ssd_rows if shape.host_rows else shape.device_rows
    if shape.ssd_rows and not shape.host_rows:
        raise click.UsageError("rows on disk need rows on the host: --host-rows")
    if shape.host_rows and shape.host_rows < shape.device_rows:
        raise click.UsageError("--host-rows {} is less than --device-rows {}: each device row needs a host "
                               "row".format(shape.host_rows, shape.device_rows))
    if room < shape.keys:
        raise click.UsageError("{} keys, but rows for {} only: raise {}".format(
            shape.keys, room, "--host-rows or --ssd-rows" if shape.host_rows else "--device-rows, or give --host-rows"))
