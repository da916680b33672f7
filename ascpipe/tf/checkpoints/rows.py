"""Export and import of rows in common file formats (docs/how-to/rows_in_and_out.md), and export of updates for servers.
"""
from typing import List, Optional

from ascpipe.checkpoint import updates
from ascpipe.rows.columns import FLOAT16, FLOAT32, FORMATS, PARQUET
from ascpipe.rows.export import Request, exported
from ascpipe.rows.imports import Imported, imported
from ascpipe.rows.imports import Request as ImportRequest
from ascpipe.rows.manifest import Exported
from ascpipe.rows.merging import KEEP, REPLACE
from ascpipe.tf.validation import Choice, Integer, PathText, Text, boolean, checked


@checked(checkpoint=PathText(1, 1024), table=Text(1, 100), to=PathText(1, 1024), format=Choice(*FORMATS),
         slots=boolean(), counts=boolean(), where=Text(1, 1000, optional=True), dtype=Choice(FLOAT32, FLOAT16))
def export_rows(checkpoint: str, table: str, to: str, *, format: str = PARQUET, slots: bool = False,  # noqa: A002
                counts: bool = False, where: Optional[str] = None, dtype: str = FLOAT32) -> Exported:
    """Export the rows of a checkpoint's table to files. The rows are sorted by key.

    When the directory exists, its files are complete. Keys without a row are not written.

    Args:
        checkpoint: ``dir/base-step``. If it is a delta, the checkpoints on which it depends are read, too.
        table: name of the table.
        to: path of a directory, which must not exist.
        format: ``"parquet"`` (``rows.parquet``, needs pyarrow), ``"npy"`` (``keys.npy``, ``rows.npy``) or ``"tsv"``
            (``rows.tsv``).
        slots: True to also write the optimizer slots.
        counts: True to also write the occurrence count and the timestamp of each key.
        where: condition on ``key``, ``count`` and ``timestamp``, such as ``"count>=10"``. Several conditions are joined
            with ``and``.
        dtype: type of the floats in the files, ``"float32"`` or ``"float16"``.

    Returns:
        The content of ``manifest.json`` in the directory, with the fields ``rows``, ``columns`` and ``files``.

    Raises:
        ArgumentError: an argument is not allowed.
        CheckpointError: the checkpoint is missing or damaged, the checkpoint does not contain the table, or the files
            cannot be written. The directory ``to`` is not created.
        ParquetMissingError: pyarrow is not installed.
    """
    return exported(Request(checkpoint, table, to, format, slots, counts, where, dtype))


@checked(into=PathText(1, 1024), table=Text(1, 100), source=PathText(1, 1024), merge=Choice(KEEP, REPLACE),
         to=PathText(1, 1024, optional=True), pad=boolean(), truncate=boolean())
def import_rows(into: str, table: str, source: str, *, merge: str = REPLACE, to: Optional[str] = None,
                pad: bool = False, truncate: bool = False) -> Imported:
    """Copy a checkpoint, and import rows from files into a table of the copy.

    Optimizer slots that the files do not have get the initial values of the optimizer. If the files have no counts, the
    count of a new row is the access threshold of the table. If the files have no timestamps, the timestamp of a new row
    is the time of the table. A replaced row keeps its count and its timestamp.

    Args:
        into: ``dir/base-step`` of the checkpoint to start from. It is not changed.
        table: name of the table.
        source: directory that ``export_rows`` wrote, directory of Parquet files, directory with ``keys.npy`` and
            ``rows.npy``, or one Parquet or TSV file.
        merge: which row is kept if a key is in both the files and the table: ``"replace"`` for the row of the files,
            ``"keep"`` for the row of the checkpoint.
        to: ``dir/base-step`` of the new checkpoint, which must not exist. None means ``dir/base-imported-step``, or
            ``dir/base-imported2-step`` and so on.
        pad: True to append zeros to rows that are shorter than the rows of the table. Optimizer slots that are as wide
            as a row are padded with their initial value. If False, shorter rows are an error.
        truncate: True to drop the last floats of longer rows and of their optimizer slots.

    Returns:
        The result, with the fields ``checkpoint``, ``rows``, ``added``, ``replaced`` and ``kept``.

    Raises:
        ArgumentError: an argument is not allowed.
        RowsNotImportedError: rows have another dimension, a key occurs twice, a value is not finite, or a column is
            missing. This is a CheckpointError, as are damaged files and checkpoints. No checkpoint was written.
        ParquetMissingError: pyarrow is not installed.
    """
    return imported(ImportRequest(into, table, source, merge, to, pad, truncate))


@checked(checkpoint=PathText(1, 1024), to=PathText(1, 1024), keep=Integer(0, 1000000))
def export_delta(checkpoint: str, to: str, *, keep: int = updates.KEEP) -> List[updates.ExportedUpdate]:
    """Export the rows that have changed since the last call. Files are written to a directory that servers watch.

    Call this function on one rank after each save of a delta checkpoint. ``export_saved_model(..., watch=)`` exports
    models that apply the files (docs/how-to/serving_updates.md).

    Each delta checkpoint since the last call becomes one file with the changed rows and the deleted keys of all tables
    (a delta). In the following cases, one file with all rows (a full update) is written instead, and older files are
    removed: the directory is empty; its newest file does not belong to an ancestor of the checkpoint; an access
    threshold has changed; or more than ``keep`` deltas would follow the last full update.

    Args:
        checkpoint: ``dir/base-step``, or a directory. The newest checkpoint of the directory is used.
        to: directory of the updates. It is created if it is missing.
        keep: maximum number of deltas after a full update. With 0, all updates are full.

    Returns:
        The files that were written, oldest first. The list is empty if the directory already contains these rows.

    Raises:
        ArgumentError: an argument is not allowed.
        UpdateNotExportedError: the files cannot be written, or the checkpoint has no step. This is a CheckpointError.
        CheckpointError: the checkpoint is missing, damaged or unverified.
    """
    return updates.export_updates(checkpoint, to, keep)
