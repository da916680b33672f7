"""Requests that rank 0 sends to read and change the rows of other ranks.

Rank 0 holds its trainer between two steps, so no rank trains until the last of these requests has ended. A change has
two phases. First, rank 0 sends the keys and rows in parts, and each rank writes an edited copy of its shard. When all
copies are complete, each rank replaces its shard by the copy.
"""
import base64
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

import numpy as np

from ascpipe.checkpoint.keys import belongs
from ascpipe.errors import CallOrderError, OtherRankRowsError, TableError
from ascpipe.tf.checkpoints.own_rows import edited, load_edited, read_rows
from ascpipe.tf.checkpoints.table_copy import Edit, EditedTable
from ascpipe.tf.running.asking import Handler, RefusedError, asked
from ascpipe.tf.running.hold_between_steps import hold
from ascpipe.tf.running.pipeline import Pipeline
from ascpipe.tf.running.row_access import TableRows

READ = "read of rows"  #: name of the request that sends the keys of rows
ROWS = "part of the rows that were read"  #: name of the request for rows
PART = "part of a change of rows"  #: name of the request that sends keys and rows of a change
CHANGE = "change of rows"  #: name of the request to execute the change
FREEZE = "freeze"  #: name of the request to freeze or unfreeze a table

_PART_BYTES = 1 << 17  # bytes of keys and rows in a request or in its answers
_KEY_BYTES = 8
_KNOWN_BYTES = 25  # key, count and timestamp (8 bytes each), and 1 byte for whether the key has a row


class Packed(NamedTuple):
    """Base64-encoded arrays of a request. ``rows`` is None if the request deletes keys."""

    keys: str
    rows: Optional[str]

    @classmethod
    def of(cls, edit: Edit, part: slice) -> "Packed":
        return cls(_text(edit.keys[part]), None if edit.rows is None else _text(edit.rows[part]))

    def edit(self, kept: Any) -> Edit:
        """Decode the keys and rows, and return an ``Edit``."""
        keys = _array(self.keys, np.int64)
        rows = None if self.rows is None else _array(self.rows, np.float32).reshape(len(keys), -1)
        return Edit(keys, rows, [(column, width) for column, width in kept])


def read_other_rows(pipeline: Pipeline, table: str, found: TableRows) -> None:
    """Fill ``found`` with the rows that other ranks own. Rank 0 calls the function during a hold.

    Args:
        found: keys in ascending order. ``rows`` includes the optimizer slots.

    Raises:
        OtherRankRowsError: a rank cannot read its rows.
        tf.errors.OpError: a rank has failed.
    """
    floats = found.rows.shape[1]
    wanted = found.keys[~belongs(found.keys, 0, pipeline.ranks)]
    step = max(1, _PART_BYTES // _KEY_BYTES)
    starts = range(0, len(wanted), step)
    for start in starts:
        _answers(pipeline, table, {
            "what": READ, "table": table, "keys": _text(wanted[start:start + step]), "is_first": start == 0,
            "is_last": start == starts[-1]}, changes=False)
    step = max(1, _PART_BYTES // (_KNOWN_BYTES + 4 * floats))
    starts = range(0, len(wanted), step)
    for start in starts:
        part = wanted[start:start + step]
        for answer in _answers(pipeline, table, {
                "what": ROWS, "table": table, "first": int(part[0]), "last": int(part[-1]),
                "is_last": start == starts[-1]}, changes=False):
            other = _unpacked(answer, floats)
            where = np.searchsorted(found.keys, other.keys)
            for mine, given in zip(found[1:5], other[1:5]):
                mine[where] = given


class OtherRanksEdit:
    """Change of the rows that other ranks own. Rank 0 creates the object during an exclusive hold.

    Attributes:
        deleted: number of keys that the other ranks delete.

    Raises:
        OtherRankRowsError: a rank cannot change its rows. Nothing was changed.
        tf.errors.OpError: a rank has failed. Nothing was changed.
    """

    def __init__(self, pipeline: Pipeline, table: str, edit: Edit) -> None:
        self._pipeline = pipeline
        self._table = table
        row_bytes = 0 if edit.rows is None else edit.rows.itemsize * edit.rows.shape[1]
        step = max(1, _PART_BYTES // (_KEY_BYTES + row_bytes))
        starts = range(0, max(1, len(edit.keys)), step)
        for start in starts:
            answers = _answers(pipeline, table, {
                "what": PART, "table": table, "kept": [list(each) for each in edit.kept], "is_first": start == 0,
                "is_last": start == starts[-1], **Packed.of(edit, slice(start, start + step))._asdict()}, changes=False)
        self.deleted = sum(map(int, answers))

    def execute(self) -> None:
        """Change the rows of the other ranks.

        Raises:
            OtherRankRowsError, tf.errors.OpError: a rank has failed. The ranks have different tables, and none of them
                continues training.
        """
        _answers(self._pipeline, self._table, {"what": CHANGE, "table": self._table}, changes=True)


def freeze_other_ranks(pipeline: Pipeline, table: str, *, frozen: bool) -> None:
    """Freeze or unfreeze a table on the other ranks. Rank 0 calls the function during an exclusive hold.

    Raises:
        OtherRankRowsError, tf.errors.OpError: a rank has failed, and none of the ranks continues training.
    """
    _answers(pipeline, table, {"what": FREEZE, "table": table, "frozen": frozen}, changes=True)


class RowRequests:
    """Handlers on a rank other than 0, which execute rank 0's requests to read and change rows."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._keys: List[np.ndarray] = []
        self._read: Optional[TableRows] = None
        self._parts: List[Edit] = []
        self._ready: Dict[str, EditedTable] = {}

    def handlers(self) -> Dict[str, Handler]:
        """Return a dict: name of a request -> handler."""
        return {READ: self._find, ROWS: self._rows, PART: self._prepare, CHANGE: self._change, FREEZE: self._freeze}

    def _find(self, number: int, request: Mapping[str, Any]) -> str:
        """Store the keys of one request. After the last request, read the rows of all stored keys in one scan."""
        if request["is_first"]:
            self._keys.clear()
            self._read = None
        keys = _array(request["keys"], np.int64)
        self._keys.append(keys[belongs(keys, self._pipeline.rank, self._pipeline.ranks)])
        if request["is_last"]:
            wanted = np.concatenate(self._keys)
            self._keys.clear()
            with hold(alone=False) as held:
                self._read = read_rows(self._pipeline, held, request["table"], wanted)
        return ""

    def _rows(self, number: int, request: Mapping[str, Any]) -> str:
        """Return the rows that were read for a range of keys."""
        read = self._read
        if read is None:
            raise CallOrderError("No rows of table {!r} were read. Nothing was changed. Read them again".format(
                request["table"]))
        part = slice(np.searchsorted(read.keys, request["first"]), np.searchsorted(read.keys, request["last"], "right"))
        if request["is_last"]:
            self._read = None
        return _packed(TableRows(read.keys[part], read.rows[part], read.found[part], read.counts[part],
                                 read.timestamps[part], {}))

    def _prepare(self, number: int, request: Mapping[str, Any]) -> str:
        """Store the keys and rows of one request, which are a part of a change.

        After the last keys, write the edited copy, and return the number of deleted keys.
        """
        pipeline = self._pipeline
        name = request["table"]
        if request["is_first"]:
            self._parts.clear()
            self._ready.clear()
        part = Packed(request["keys"], request["rows"]).edit(request["kept"])
        mine = belongs(part.keys, pipeline.rank, pipeline.ranks)
        self._parts.append(part._replace(keys=part.keys[mine], rows=None if part.rows is None else part.rows[mine]))
        if not request["is_last"]:
            return "0"
        rows = None if part.rows is None else np.concatenate([each.rows for each in self._parts])
        edit = part._replace(keys=np.concatenate([each.keys for each in self._parts]), rows=rows)
        self._parts.clear()
        with hold(alone=False) as held:
            content = edited(pipeline, held, name, edit)
        self._require_space(name, content)
        self._ready[name] = content
        return str(len(content.deleted[0]))

    def _change(self, number: int, request: Mapping[str, Any]) -> str:
        name = request["table"]
        content = self._ready.pop(name)
        with hold(alone=True) as held:
            load_edited(self._pipeline, held, name, content)
            self._pipeline.begin_history()
        return ""

    def _freeze(self, number: int, request: Mapping[str, Any]) -> str:
        with hold(alone=True) as held:
            held.freeze(self._pipeline.tables[request["table"]].shape.number, frozen=request["frozen"])
        return ""

    def _require_space(self, name: str, content: EditedTable) -> None:
        shape = self._pipeline.tables[name].shape
        limit = shape.disk_rows or shape.home_rows or shape.device_rows
        rows = content.tables[name].rows
        if not shape.expands and rows > limit:
            raise TableError("Table {!r}: {} rows do not fit, because this rank has {} rows. Nothing was changed. "
                             "Increase the sizes of the table".format(name, rows, limit))


def _answers(pipeline: Pipeline, table: str, request: Dict[str, Any], *, changes: bool) -> List[str]:
    """Send a request to the other ranks, and return the answers."""
    what = "{} of table {!r}".format(request["what"], table)
    try:
        with asked(request, changes=changes, about="the " + what, limit_s=pipeline.wait_timeout_s) as others:
            return others.answers()
    except RefusedError as error:
        raise OtherRankRowsError(
            what, str(error), "The ranks now have different rows, and none of them continues training. Restart all "
            "ranks from a checkpoint" if changes else "Nothing was changed") from error


def _text(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def _array(text: str, dtype: Any) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype)


def _packed(found: TableRows) -> str:
    """Encode as base64: keys, rows, counts, timestamps, and whether each key was found."""
    return base64.b64encode(b"".join(array.tobytes() for array in found[:5])).decode()


def _unpacked(text: str, floats: int) -> TableRows:
    data = base64.b64decode(text)
    n = len(data) // (_KNOWN_BYTES + 4 * floats)
    arrays = []
    start = 0
    for dtype, width in ((np.int64, 1), (np.float32, floats), (bool, 1), (np.int64, 1), (np.int64, 1)):
        arrays.append(np.frombuffer(data, dtype, n * width, start))
        start += arrays[-1].nbytes
    keys, rows, found, counts, timestamps = arrays
    return TableRows(keys, rows.reshape(n, floats), found, counts, timestamps, {})
