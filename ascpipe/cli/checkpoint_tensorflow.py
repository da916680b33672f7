"""Commands ``ascpipe checkpoint from-tensorflow`` and ``to-tensorflow``, which need neither TensorFlow nor a daemon."""
from typing import Optional, Sequence, Tuple

import click

from ascpipe.cli.checkpoint_rows import as_json_option, bar, shown
from ascpipe.logs import counted


@click.command("from-tensorflow",
               help="Write a checkpoint with tables from CHECKPOINT, which TensorFlow's Saver wrote. Repeat --variable "
                    "and --table for each embedding variable. Other variables are copied.")
@click.argument("checkpoint", metavar="CHECKPOINT")
@click.option("--variable", "names", multiple=True, required=True, metavar="NAME",
              help="Name of an embedding variable, such as scope/embedding_weights.")
@click.option("--table", "tables", multiple=True, required=True, metavar="TABLE",
              help="Name of the table of the variable.")
@click.option("--keys", multiple=True, metavar="KIND",
              help="Key of a row: identity or hash_bucket (the number of the row), or vocabulary:FILE (the line of the "
                   "file). One value for all variables, or one value per variable.  [default: identity]")
@click.option("--partition-strategy", type=click.Choice(["div", "mod"]), default=None,
              help="Argument of embedding_lookup for variables with several parts.")
@click.option("--to", required=True, metavar="DIR/BASE-STEP", help="Name of the new checkpoint.")
@as_json_option
def from_command(checkpoint: str, names: Tuple[str, ...], tables: Tuple[str, ...], keys: Tuple[str, ...],
                 partition_strategy: Optional[str], to: str, as_json: bool) -> None:
    """Convert a checkpoint of TensorFlow and print the tables."""
    from ascpipe.rows.taking_over import Request, Variable, taken_over

    if len(names) != len(tables):
        raise click.UsageError("there are {} --variable and {} --table; pass one --table for each --variable".format(
            len(names), len(tables)))
    kinds = keys or ("identity",)
    kinds = kinds * len(names) if len(kinds) == 1 else kinds
    if len(kinds) != len(names):
        raise click.UsageError("there are {} --variable and {} --keys; pass --keys once, or once for each "
                               "--variable".format(len(names), len(kinds)))
    variables = [Variable(name, table, kind, partition_strategy) for name, table, kind in zip(names, tables, kinds)]
    with bar("from-tensorflow") as progress:
        found = taken_over(Request(checkpoint, variables, to), progress)
    lines = ["{}  table {}: {}, slots {}".format(
        found.checkpoint, table, counted(rows, "row"), _names(found.slots[table]))
        for table, rows in found.tables.items()]
    shown(found._asdict(), [*lines, "{}  {} copied".format(
        found.checkpoint, counted(len(found.variables), "variable"))], as_json=as_json)


@click.command("to-tensorflow",
               help="Write a checkpoint for TensorFlow's Saver from CHECKPOINT, DIR/BASE-STEP. Row i of a variable is "
                    "the row of key i. Other variables are copied. Repeat --table and --variable for each table. For "
                    "tables of feature columns, CHECKPOINT contains the names of the variables.")
@click.argument("checkpoint", metavar="CHECKPOINT")
@click.option("--table", "tables", multiple=True, metavar="TABLE",
              help="Name of a table. Default: all tables, which then must be tables of feature columns.")
@click.option("--variable", "names", multiple=True, metavar="NAME",
              help="Name of the variable of the table.")
@click.option("--rows", multiple=True, type=click.IntRange(1, 1 << 31), metavar="N",
              help="Number of rows of the variable; rows without a key become zeros. One value per table. Default: the "
                   "largest key plus 1, if each row has a key.")
@click.option("--to", required=True, metavar="DIR/BASE-STEP", help="Name of the new checkpoint.")
@as_json_option
def to_command(checkpoint: str, tables: Tuple[str, ...], names: Tuple[str, ...], rows: Tuple[int, ...], to: str,
               as_json: bool) -> None:
    """Convert a checkpoint with tables and print the variables."""
    from ascpipe.rows.giving_back import Request, Table, given_back

    if len(names) != len(tables) or len(rows) not in (0, len(tables)):
        raise click.UsageError("there are {} --table, {} --variable and {} --rows; pass one --variable for each "
                               "--table, and --rows for each or none".format(len(tables), len(names), len(rows)))
    wanted = [Table(*each) for each in zip(tables, names, rows or [None] * len(tables))] or None
    with bar("to-tensorflow") as progress:
        found = given_back(Request(checkpoint, wanted, to), progress)
    shown(found._asdict(), ["{}  variable {}: {}, {} without a key, slots {}".format(
        found.checkpoint, name, counted(count, "row"), found.zeros[name], _names(found.slots[name]))
        for name, count in found.rows.items()], as_json=as_json)


def _names(slots: Sequence[str]) -> str:
    return ", ".join(slots) or "(none)"
