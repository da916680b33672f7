"""Export of rows to files of other programs (docs/how-to/rows_in_and_out.md)."""
from typing import Optional

from ascpipe.rows.columns import FLOAT16, FLOAT32, FORMATS, PARQUET
from ascpipe.rows.export import Request, exported
from ascpipe.rows.manifest import Exported
from ascpipe.tf.validation import Choice, PathText, Text, boolean, checked


@checked(checkpoint=PathText(1, 1024), table=Text(1, 100), to=PathText(1, 1024), format=Choice(*FORMATS),
         slots=boolean(), counts=boolean(), where=Text(1, 1000, optional=True), dtype=Choice(FLOAT32, FLOAT16))
def export_rows(checkpoint: str, table: str, to: str, *, format: str = PARQUET, slots: bool = False,  # noqa: A002
                counts: bool = False, where: Optional[str] = None, dtype: str = FLOAT32) -> Exported:
    """Write the rows of a table of a checkpoint to files, in the order of their keys.

    The files are complete when the directory appears. Keys without a row are not written.

    Args:
        checkpoint: ``dir/base-step``. A delta is read together with the checkpoints that it depends on.
        table: name of the table.
        to: path of a directory, which must not exist.
        format: ``"parquet"`` (``rows.parquet``, needs pyarrow), ``"npy"`` (``keys.npy``, ``rows.npy``) or ``"tsv"``
            (``rows.tsv``).
        slots: True to also write the optimizer slots.
        counts: True to also write the occurrence count and the timestamp of each key.
        where: condition such as ``"count>=10"`` on ``key``, ``count`` and ``timestamp``. ``and`` joins conditions.
        dtype: type of the floats in the files, ``"float32"`` or ``"float16"``.

    Returns:
        The content of ``manifest.json`` in the directory, with the fields ``rows``, ``columns`` and ``files``.

    Raises:
        ArgumentError: an argument is not allowed.
        CheckpointError: the checkpoint is missing or damaged, does not have the table, or the files cannot be written.
            There is no directory ``to``.
        ParquetMissingError: pyarrow is not installed.
    """
    return exported(Request(checkpoint, table, to, format, slots, counts, where, dtype))
