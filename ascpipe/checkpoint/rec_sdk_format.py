"""Reader of Rec SDK's checkpoints, which have no manifest. Only the sizes of files and the keys can be checked."""
import logging
import os
import re
from typing import List, Optional, Sequence, Tuple

import numpy as np

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.block_reader import Checkpoint
from ascpipe.checkpoint.checks import MAX_ROWS, MAX_WIDTH
from ascpipe.checkpoint.contents import FLOAT_BYTES, INT_BYTES, WHOLE, SlotSpec, TableSpec
from ascpipe.checkpoint.errors import UnmergedCheckpointError
from ascpipe.checkpoint.paths import SLOT_NAME, TABLE_NAME
from ascpipe.checkpoint.table_folders import EMBEDDING, KEY, OURS, Piece, float_pieces
from ascpipe.checkpoint.tree import Tree, why
from ascpipe.checkpoint.verify import Stamps, check_table
from ascpipe.logs import counted

_PART = re.compile(r"slice_\d+\.data\Z")
_STEP = re.compile(r"-(\d{1,18})\Z")
_MAX_ATTRIBUTES = 3
_log = logging.getLogger(__name__)


def checkpoint_of(tree: Tree) -> Checkpoint:
    """Open a checkpoint without a manifest. The name of the checkpoint contains the training step.

    The dense part is in the same directory as the sparse part.

    Raises:
        DamagedCheckpointError: sizes or keys are invalid, or the parts of several ranks are not merged.
    """
    _log.warning("checkpoint %s has no manifest of ascpipe. It is read as it is: only the sizes of its files and the "
                 "uniqueness of keys are checked", tree.place.prefix)
    stamps: Stamps = {}
    tables = [_table(tree, name, stamps) for name in _folders(tree, ()) if TABLE_NAME.match(name)]
    if not tables:
        raise tree.damaged("", "it has no table")
    step = _STEP.search(tree.place.stem)
    dense = os.path.join(tree.place.directory, tree.place.stem)
    has_dense = os.path.isfile(dense + ".index")
    return Checkpoint(tree, int(step.group(1)) if step else None, tables, None, dense if has_dense else None, stamps)


def _table(tree: Tree, name: str, stamps: Stamps) -> TableSpec:
    _check_merged(tree, name)
    keys = _piece(tree, name, KEY)
    embedding = _piece(tree, name, EMBEDDING)
    if keys is None or keys.width or embedding is None or not embedding.width or embedding.rows != keys.rows:
        raise tree.damaged(name, "its folders {} and {} do not belong to one table".format(KEY, EMBEDDING))
    slots = []
    ignored = []
    for folder in _folders(tree, (name,)):
        if folder in OURS:
            continue
        piece = _piece(tree, name, folder) if SLOT_NAME.match(folder) else None
        if piece is not None and piece.width and piece.rows == keys.rows:
            slots.append(SlotSpec(folder, piece.width, None))
        else:
            ignored.append(folder)
    if ignored:
        _log.warning("checkpoint %s, table %s: not read: %s", tree.place.prefix, name, ", ".join(sorted(ignored)))
    spec = TableSpec(name, embedding.width, "int64", tuple(slots), keys.rows, 0, None, None)
    for piece in (keys, *float_pieces(spec)):
        with tree.file((name, piece.folder, WHOLE.data)) as file:
            stamps[name, piece.folder] = disk.stamp(file)
    check_table(tree, spec, {KEY: keys})
    return spec


def _check_merged(tree: Tree, table: str) -> None:
    for folder in _folders(tree, (table,)):
        parts = unmerged_parts(tree.names((table, folder)))
        if parts:
            raise UnmergedCheckpointError(tree.place.prefix, os.path.join(tree.name, table, folder), (
                "it has {} and no {}. Rec SDK writes one part for each rank and merges the parts at the end of a save, "
                "so this save did not finish").format(shown_parts(parts), WHOLE.data))


def unmerged_parts(names: Sequence[str]) -> List[str]:
    """Return the names of the data files of single ranks, or an empty list if the folder has the merged file.

    Args:
        names: names in a folder of a table.
    """
    return [] if WHOLE.data in names else [name for name in names if _PART.match(name)]


def shown_parts(parts: Sequence[str]) -> str:
    """Return a short description of the names of data files, for example ``slice_0.data and 7 more parts``."""
    others = len(parts) - 1
    return parts[0] + (" and {}".format(counted(others, "more part")) if others else "")


def _piece(tree: Tree, table: str, folder: str) -> Optional[Piece]:
    """Return the ``Piece`` of a folder according to its shape file.

    Return None if the folder contains neither int64 keys nor float32 rows.
    """
    names = (table, folder, WHOLE.attribute)
    shape = _attribute(tree, names)
    if len(shape) == 2 and shape[1] == INT_BYTES:
        rows = shape[0]
        width = 0
    elif len(shape) == 3 and shape[2] == FLOAT_BYTES:
        rows = shape[0]
        width = shape[1]
    else:
        return None
    if not 0 <= rows <= MAX_ROWS or not (0 if len(shape) == 2 else 1) <= width <= MAX_WIDTH:
        raise tree.damaged(os.path.join(*names), "{} rows of {} values are not supported".format(rows, width))
    piece = Piece(folder, rows, width)
    size = tree.file_size((table, folder, WHOLE.data))
    if size != piece.data_bytes:
        raise tree.damaged(os.path.join(table, folder, WHOLE.data), "it has {} bytes, but its attribute says {}".format(
            size, piece.data_bytes))
    return piece


def _attribute(tree: Tree, names: Tuple[str, str, str]) -> List[int]:
    size = tree.file_size(names)
    if size is None or size % INT_BYTES or size > _MAX_ATTRIBUTES * INT_BYTES:
        return []
    content = bytearray(size)
    with tree.file(names) as file:
        disk.read_into(file, 0, content)
    return [int(value) for value in np.frombuffer(content, "<i8")]


def _folders(tree: Tree, names: Tuple[str, ...]) -> List[str]:
    try:
        return tree.folders(names)
    except OSError as error:
        raise tree.damaged(os.path.join("", *names), why(error)) from error
