"""Conversion between TensorFlow's checkpoints and checkpoints with tables (docs/how-to/tensorflow_checkpoints.md)."""
from typing import List, Optional, Sequence, Union

from ascpipe.errors import ArgumentError
from ascpipe.rows.giving_back import MAX_ROWS, GivenBack, Table, given_back
from ascpipe.rows.giving_back import Request as GiveBack
from ascpipe.rows.taking_over import DIV, MOD, Request, TakenOver, Variable, taken_over
from ascpipe.rows.vocabularies import IDENTITY
from ascpipe.tf.validation import AnyOf, Choice, Integer, ListOf, PathText, Text, checked

Texts = Union[str, Sequence[str]]

_NAME = Text(1, 1024)
_ROWS = Integer(1, MAX_ROWS)


@checked(checkpoint=PathText(1, 1024), variable=AnyOf(_NAME, ListOf(_NAME)), table=AnyOf(_NAME, ListOf(_NAME)),
         to=PathText(1, 1024), keys=AnyOf(_NAME, ListOf(_NAME)), partition_strategy=Choice(DIV, MOD, optional=True))
def from_tensorflow(checkpoint: str, variable: Texts, table: Texts, to: str, *, keys: Texts = IDENTITY,
                    partition_strategy: Optional[str] = None) -> TakenOver:
    """Convert a checkpoint that plain TensorFlow wrote to a new checkpoint with tables.

    Embedding variables and their optimizer slots become tables. Other variables are copied.

    Args:
        checkpoint: ``dir/base-step`` that ``tf.train.Saver`` returned. It is not changed.
        variable: name of an embedding variable, float32[rows, dim] or float32[rows], or a list of names.
        table: name of the table of the variable, or a list of the same length.
        to: ``dir/base-step`` of the new checkpoint, which must not exist.
        keys: how the key of a row is determined. With ``"identity"`` and ``"hash_bucket"``, the key is the row number.
            With ``"vocabulary:FILE"``, the key is read from the corresponding line of the file: the integer in the
            line, or ``tf.strings.to_hash_bucket_fast(line, 2 ** 63 - 1)`` if not all lines are integers. A list has one
            item for each variable.
        partition_strategy: ``"div"`` or ``"mod"``, as in ``embedding_lookup``. It is required for variables with
            several parts.

    Returns:
        The result, with the fields ``checkpoint``, ``tables``, ``slots`` and ``variables``.

    Raises:
        ArgumentError: an argument is not allowed.
        NotConvertedError: a variable is missing or cannot become a table. This is a CheckpointError, as are a missing
            or damaged checkpoint and a failed save. No checkpoint was written.
    """
    names = _listed(variable)
    tables = _listed(table)
    kinds = _listed(keys)
    kinds = kinds * len(names) if len(kinds) == 1 else kinds
    if not len(names) == len(tables) == len(kinds):
        raise ArgumentError("There are {} variables, {} tables and {} kinds of keys. Nothing was read or written. Pass "
                            "lists of the same length".format(len(names), len(tables), len(kinds)))
    return taken_over(Request(checkpoint, [Variable(*each, partition_strategy) for each in zip(names, tables, kinds)],
                              to))


@checked(checkpoint=PathText(1, 1024), table=AnyOf(_NAME, ListOf(_NAME), optional=True),
         variable=AnyOf(_NAME, ListOf(_NAME), optional=True), to=PathText(1, 1024, optional=True),
         rows=AnyOf(_ROWS, ListOf(_ROWS), optional=True))
def to_tensorflow(checkpoint: str, table: Optional[Texts] = None, variable: Optional[Texts] = None,
                  to: Optional[str] = None, *, rows: Union[None, int, Sequence[int]] = None) -> GivenBack:
    """Convert a checkpoint with tables to a new checkpoint for ``tf.train.Saver``.

    Row i of a variable is the row of key i. Optimizer slots get TensorFlow's names. Other variables are copied.

    Args:
        checkpoint: ``dir/base-step`` of a checkpoint with tables. It is not changed.
        table: name of a table, or a list of names. None means all tables, which must then be tables of feature columns:
            the checkpoint contains the names and numbers of rows of their variables.
        variable: name of the variable of the table, or a list of the same length.
        to: ``dir/base-step`` of the new checkpoint, which must not exist. It is required.
        rows: number of rows of the variable, in [1, 2^31], or a list with a number for each table. Rows without a key
            are zeros, and their slots have initial values. None means the largest key plus 1; each row then needs a
            key.

    Returns:
        The result, with the fields ``checkpoint``, ``rows``, ``zeros`` and ``slots``.

    Raises:
        ArgumentError: an argument is not allowed.
        NotConvertedError: the keys of a table are not row numbers, or ``table`` is None and the checkpoint does not
            contain the name of a table's variable. This is a CheckpointError, as are a missing or damaged
            checkpoint and a failed save. No checkpoint was written.
    """
    if to is None:
        raise ArgumentError("argument to: there is no name for the new checkpoint. Nothing was read or written. Pass "
                            "dir/base-step")
    if table is None and variable is None and rows is None:
        return given_back(GiveBack(checkpoint, None, to))
    tables = _listed(table)
    names = _listed(variable)
    counts: List[Optional[int]] = [None] * len(tables) if rows is None else _numbers(rows)
    if not len(tables) == len(names) == len(counts):
        raise ArgumentError("There are {} tables, {} variables and {} numbers of rows. Nothing was read or written. "
                            "Pass lists of the same length".format(len(tables), len(names), len(counts)))
    return given_back(GiveBack(checkpoint, [Table(*each) for each in zip(tables, names, counts)], to))


def _numbers(rows: Union[int, Sequence[int]]) -> List[Optional[int]]:
    return [rows] if isinstance(rows, int) else list(rows)


def _listed(given: Optional[Texts]) -> List[str]:
    if given is None:
        return []
    return [given] if isinstance(given, str) else list(given)
