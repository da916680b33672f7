"""Conversion between checkpoints of TensorFlow and tables (docs/how-to/tensorflow_checkpoints.md)."""
from typing import List, Optional, Sequence, Union

from ascpipe.errors import ArgumentError
from ascpipe.rows.taking_over import DIV, MOD, Request, TakenOver, Variable, taken_over
from ascpipe.rows.vocabularies import IDENTITY
from ascpipe.tf.validation import AnyOf, Choice, ListOf, PathText, Text, checked

Texts = Union[str, Sequence[str]]

_NAME = Text(1, 1024)


@checked(checkpoint=PathText(1, 1024), variable=AnyOf(_NAME, ListOf(_NAME)), table=AnyOf(_NAME, ListOf(_NAME)),
         to=PathText(1, 1024), keys=AnyOf(_NAME, ListOf(_NAME)), partition_strategy=Choice(DIV, MOD, optional=True))
def from_tensorflow(checkpoint: str, variable: Texts, table: Texts, to: str, *, keys: Texts = IDENTITY,
                    partition_strategy: Optional[str] = None) -> TakenOver:
    """Write a checkpoint with tables from a checkpoint that plain TensorFlow wrote.

    Embedding variables and their optimizer slots become tables. Other variables are copied.

    Args:
        checkpoint: ``dir/base-step`` that ``tf.train.Saver`` returned. It is not changed.
        variable: name of an embedding variable, float32[rows, dim] or float32[rows], or a list of names.
        table: name of the table of the variable, or a list of the same length.
        to: ``dir/base-step`` of the new checkpoint, which must not exist.
        keys: key of a row: ``"identity"`` and ``"hash_bucket"`` are the number of the row. ``"vocabulary:FILE"`` is the
            line of a file: an integer, or ``tf.strings.to_hash_bucket_fast(line, 2 ** 63 - 1)`` if a line is no
            integer. A list has one item for each variable.
        partition_strategy: ``"div"`` or ``"mod"``, the argument of ``embedding_lookup``. It is necessary for variables
            with several parts.

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


def _listed(given: Texts) -> List[str]:
    return [given] if isinstance(given, str) else list(given)
