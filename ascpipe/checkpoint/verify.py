"""Whether a checkpoint is what was saved: every file of it, and whether its keys and counts make sense."""
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Dict, Iterable, NamedTuple, Tuple

import numpy as np

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.contents import TableSpec
from ascpipe.checkpoint.digests import FileDigests
from ascpipe.checkpoint.keys import repeated
from ascpipe.checkpoint.manifest import SavedFile
from ascpipe.checkpoint.paths import DENSE
from ascpipe.checkpoint.pieces import (
    ATTRIBUTE,
    CANDIDATE_COUNT,
    CANDIDATE_KEY,
    CANDIDATE_TIMESTAMP,
    COUNT,
    DATA,
    DELETED_KEY,
    KEY,
    TIMESTAMP,
    Piece,
    float_pieces,
    key_pieces,
    pool_pieces,
)
from ascpipe.checkpoint.tree import Records, Tree

Stamps = Dict[Tuple[str, str], disk.Stamp]  #: of each ``slice.data``, by table and folder


class Verified(NamedTuple):
    """A checkpoint that is what was saved."""

    records: Records
    stamps: Stamps


def verified(tree: Tree, *, rows: bool = True) -> Verified:
    """Verify all of a checkpoint; without ``rows``, only its records and its keys with their counts.

    Raises:
        DamagedCheckpointError: it is not what was saved.
    """
    records = tree.records()
    stamps: Stamps = {}
    with FileDigests() as digests, ThreadPoolExecutor(1) as beside:
        checks = []
        for spec in records.manifest.tables:
            _verify_pieces(tree, records, spec, key_pieces(spec), digests, stamps)
            there = {piece.folder: piece for piece in key_pieces(spec)}
            checks.append(beside.submit(check_table, tree, spec, there))  # while the disk works for the others
            if rows:
                _verify_pieces(tree, records, spec, float_pieces(spec) + pool_pieces(spec), digests, stamps)
        for name, saved in records.pair.dense.items() if rows else ():
            _verify_file(tree, (DENSE, name), saved, digests)
        for check in checks:
            check.result()
    return Verified(records, stamps)


def _verify_pieces(tree: Tree, records: Records, spec: TableSpec, pieces: Iterable[Piece], digests: FileDigests,
                   stamps: Stamps) -> None:
    for piece in pieces:
        names = (spec.name, piece.folder)
        tree.check_content((*names, ATTRIBUTE), piece.attribute)
        stamps[names] = _verify_file(tree, (*names, DATA), records.manifest.data[spec.name][piece.folder], digests)


def _verify_file(tree: Tree, names: Tuple[str, ...], saved: SavedFile, digests: FileDigests) -> disk.Stamp:
    with tree.file(names) as file:
        stamp = disk.stamp(file)
        if stamp.size != saved.size:
            raise tree.damaged(os.path.join(*names), "it has {} bytes, {} were saved".format(stamp.size, saved.size))
        if digests.digest(file, saved.size) != saved.digest:
            raise tree.damaged(os.path.join(*names), "its {} bytes are not those that were saved".format(saved.size))
        return stamp


def check_table(tree: Tree, spec: TableSpec, there: Dict[str, Piece]) -> None:
    """Keys are unique, counts and timestamps not below 0.

    Args:
        there: the folders, by name, whose ``slice.data`` has the length that it must have.

    Raises:
        DamagedCheckpointError: they are not.
    """
    for folder in (COUNT, TIMESTAMP, CANDIDATE_COUNT, CANDIDATE_TIMESTAMP):
        if folder in there:
            values = read_all(tree, spec.name, there[folder])
            if values.size and int(values.min()) < 0:
                raise tree.damaged(os.path.join(spec.name, folder, DATA), "{} at place {} is below 0".format(
                    int(values.min()), int(values.argmin())))
    keys = [there[folder] for folder in (KEY, CANDIDATE_KEY, DELETED_KEY) if folder in there]
    double = repeated(np.concatenate([read_all(tree, spec.name, piece) for piece in keys]))
    if double is not None:
        raise tree.damaged(os.path.join(spec.name, KEY, DATA), "key {} occurs twice".format(double))


def read_all(tree: Tree, table: str, piece: Piece) -> np.ndarray:
    """int64[rows] or float32[rows, width]: all of a folder, whose length was checked before.

    Raises:
        DamagedCheckpointError: it cannot be read.
    """
    names = (table, piece.folder, DATA)
    with tree.file(names) as file:
        values = np.empty((piece.rows, piece.width) if piece.width else piece.rows, piece.dtype)
        if values.size:
            disk.read_into(file, 0, values)
        return values
