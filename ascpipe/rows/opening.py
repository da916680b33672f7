"""Opening of files with rows to import: an export, a Parquet or TSV file, or a directory of Parquet or npy files."""
import os
from typing import List, Optional

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.contents import TableSpec
from ascpipe.checkpoint.digests import file_digest
from ascpipe.checkpoint.errors import DamagedRowsError, RowsNotImportedError
from ascpipe.checkpoint.tree import why
from ascpipe.rows import manifest
from ascpipe.rows.columns import NPY, PARQUET, TSV, files_of
from ascpipe.rows.manifest import Exported
from ascpipe.rows.npy_files import NpyRows, dim_of_npy
from ascpipe.rows.parquet_files import ParquetRows, dim_of_parquet
from ascpipe.rows.resizing import NO_FIT, Fit, ResizedRows, spec_of_files
from ascpipe.rows.sources import Source
from ascpipe.rows.tsv_files import TsvRows, dim_of_tsv

_TEXTS = (".tsv", ".txt")


def open_source(path: str, spec: TableSpec, fit: Fit = NO_FIT) -> Source:
    """Open files with rows.

    Args:
        path: directory of an export, directory with ``keys.npy`` and ``rows.npy``, directory of Parquet files, or one
            Parquet or TSV file.
        spec: table into which the rows are imported.
        fit: whether rows of another dimension are padded or truncated.

    Raises:
        RowsNotImportedError: the format is unknown, or the columns do not fit the table.
        DamagedRowsError: a file is damaged, differs from the manifest of the export, or cannot be read.
        ParquetMissingError: pyarrow is not installed.
    """
    if fit != NO_FIT and os.path.exists(path):
        dim = _dim_of(path)
        if dim is not None and fit.allows(dim, spec.dim):
            return ResizedRows(_open(path, spec_of_files(spec, dim)), spec)
    return _open(path, spec)


def _dim_of(path: str) -> Optional[int]:
    """Return the number of floats per row in the files at ``path``, or None if the number is unknown."""
    is_directory = os.path.isdir(path)
    if is_directory and os.path.lexists(os.path.join(path, manifest.NAME)):
        return _manifest(path, is_verified=False).dim
    if is_directory and os.path.lexists(os.path.join(path, "keys.npy")):
        return dim_of_npy(path)
    files = _parquet_files(path) if is_directory else [path]
    if files and files[0].endswith("." + PARQUET):
        return dim_of_parquet(path, files[0])
    return dim_of_tsv(path) if path.endswith(_TEXTS) else None


def _parquet_files(path: str) -> List[str]:
    return [os.path.join(path, name) for name in _names(path) if name.endswith("." + PARQUET) and name[0] not in "._"]


def _names(path: str) -> List[str]:
    try:
        return sorted(os.listdir(path))
    except OSError as error:
        raise DamagedRowsError(path, path, why(error)) from error


def _open(path: str, spec: TableSpec) -> Source:
    if not os.path.isdir(path):
        return _file(path, spec)
    names = _names(path)
    if manifest.NAME in names:
        exported = _manifest(path)
        if exported.dim != spec.dim:
            raise RowsNotImportedError(path, manifest.NAME, "its rows have {} floats, but table {!r} has {}".format(
                exported.dim, spec.name, spec.dim), exported.rows)
        return _exported(path, spec, exported)
    if "keys.npy" in names:
        return NpyRows(path, spec)
    files = _parquet_files(path)
    if not files:
        raise RowsNotImportedError(path, path, "the directory has neither a manifest.json nor keys.npy nor Parquet "
                                   "files. It has {}".format(", ".join(names[:10]) or "no files"), 0)
    return ParquetRows(path, files, spec)


def _file(path: str, spec: TableSpec) -> Source:
    if not os.path.exists(path):
        raise RowsNotImportedError(path, path, "there is no such file or directory", 0)
    if path.endswith("." + PARQUET):
        return ParquetRows(path, [path], spec)
    if path.endswith(_TEXTS):
        return TsvRows(path, path, spec)
    raise RowsNotImportedError(path, path, "its name has no known format. Pass a file that ends in .parquet or .tsv, "
                               "or a directory with keys.npy and rows.npy", 0)


def _exported(path: str, spec: TableSpec, exported: Exported) -> Source:
    files = [os.path.join(path, name) for name in files_of(exported.file_format, exported.columns)]
    if exported.file_format == TSV:
        return TsvRows(path, files[0], spec, [column.name for column in exported.columns])
    return NpyRows(path, spec) if exported.file_format == NPY else ParquetRows(path, files, spec)


def _manifest(path: str, *, is_verified: bool = True) -> Exported:
    """Read the manifest of an export. If ``is_verified``, also verify the lengths and digests of the export's files."""
    try:
        with disk.closing(disk.open_directory(path)) as fd:
            name = manifest.NAME
            exported = manifest.decoded(disk.read_file(fd, name, manifest.MAX_BYTES))
            for name, saved in exported.files.items() if is_verified else ():
                with disk.closing(disk.open_file(fd, name)) as file:
                    size = disk.stamp(file).size
                    if size != saved.size or file_digest(file, size) != saved.digest:
                        raise ValueError("its {} bytes differ from the {} bytes that were exported. If you changed the "
                                         "file, delete manifest.json".format(size, saved.size))
    except OSError as error:
        raise DamagedRowsError(path, name, why(error)) from error
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise DamagedRowsError(path, name, str(error)) from error
    return exported
