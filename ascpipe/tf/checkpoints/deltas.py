"""Functions that find changes since the previous checkpoint, and choose between a delta and a full checkpoint."""
import logging
import os
from typing import Dict, Iterator, NamedTuple, Optional, Tuple

import numpy as np

from ascpipe.checkpoint.chain import MAX_DELTAS
from ascpipe.checkpoint.contents import KeyBlock, Link, Position
from ascpipe.checkpoint.errors import CheckpointError
from ascpipe.checkpoint.keys import places
from ascpipe.checkpoint.paths import Place, place_of_save
from ascpipe.checkpoint.reader import open_keys
from ascpipe.checkpoint.retention import complete_checkpoints
from ascpipe.tf.checkpoints import table_rows
from ascpipe.tf.running.hold_between_steps import TableState
from ascpipe.tf.running.pipeline import Pipeline, Tip

_log = logging.getLogger(__name__)


class Changes(NamedTuple):
    """Changes of a table since the parent checkpoint of a delta.

    Attributes:
        since: last ticket of the parent, or of the last full checkpoint if a delta omits rare keys. Entries with a
            greater last ticket have changed.
        left_out: int64[n], ascending. Changed keys that this delta omits.
    """

    since: int
    left_out: np.ndarray
    deleted: np.ndarray

    def among(self, entries: np.ndarray) -> np.ndarray:
        """Return bool[n], which is True for the entries that the delta contains."""
        told = table_rows.trained(entries) & (entries["last"] > self.since)
        if len(self.left_out):
            told[told] = ~places(self.left_out, entries["key"][told])[1]
        return told


def parent_of(tips: Dict[str, Tip], directory: str, base: str, step: Optional[int],
              tables: Dict[str, TableState]) -> Optional[Tip]:
    """Return the ``Tip`` of the last save if this save can be the parent of a new delta.

    If there is no such save, log the reason for a full checkpoint, and return None.
    """
    tip = tips.get(name_of(directory, base))
    reason = _obstacle(tip, directory, place_of_save(directory, base, step))
    if reason is None and tip is not None:
        loaded = [name for name, at in tables.items() if int(at.header["cut_granted"]) != tip.loads[name]]
        reason = "table {} was loaded after it".format(loaded[0]) if loaded else None
    if reason is not None:
        _log_full_save(os.path.join(directory, base) if tip is None else tip.prefix, reason)
        return None
    return tip


def _obstacle(tip: Optional[Tip], directory: str, place: Place) -> Optional[str]:
    if tip is None:
        return "nothing was saved under that name since training started"
    if tip.deltas >= MAX_DELTAS:
        return "its chain already has {} deltas".format(tip.deltas)
    for name in place.names:
        if os.path.lexists(os.path.join(directory, name)):
            return "a delta cannot replace {}".format(name)
    if tip.link not in [found.link for found in complete_checkpoints(directory)]:
        return "it was changed or removed since it was saved"
    return None


def name_of(directory: str, base: str) -> str:
    """Return the key that identifies a directory and base name in the dict ``Pipeline.tips``.

    All paths of the same directory have the same key.
    """
    return os.path.join(os.path.realpath(directory), base)


def changes_since(tip: Optional[Tip], tables: Dict[str, TableState],
                  threshold: int) -> Tuple[Optional[Tip], Dict[str, Optional[Changes]]]:
    """Find the changes of each table since the save ``tip``.

    Args:
        tip: parent of the delta, or None for a full checkpoint.
        tables: states of tables by name, which are valid during a hold.
        threshold: minimum number of occurrences of a key since it was last saved. Keys with fewer occurrences are
            omitted if the table counts occurrences.

    Returns:
        The tip, and the changes by table name. The tip and all changes are None if a full checkpoint must be saved.
    """
    whole: Dict[str, Optional[Changes]] = dict.fromkeys(tables)
    if tip is None:
        return None, whole
    try:
        return tip, {name: _changes(tip, name, at, threshold) for name, at in tables.items()}
    except CheckpointError as error:
        _log_full_save(tip.prefix, str(error))
        return None, whole


def next_tip(pipeline: Pipeline, tip: Optional[Tip], prefix: str, link: Link, here: Position,
             tables: Dict[str, TableState]) -> Tip:
    """Return the ``Tip`` of a new save. The save is a delta with the parent ``tip``, or a full checkpoint if ``tip`` is
    None.
    """
    return Tip(prefix, link, 0 if tip is None else tip.deltas + 1, here, here if tip is None else tip.full,
               loads_of(tables), pipeline.rank, pipeline.ranks)


def loads_of(tables: Dict[str, TableState]) -> Dict[str, int]:
    """Return a dict for ``Tip.loads``: table name -> number of the table's last load."""
    return {name: int(at.header["cut_granted"]) for name, at in tables.items()}


def _log_full_save(prefix: str, reason: str) -> None:
    _log.info("a full checkpoint is saved instead of a delta based on %s: %s", prefix, reason)


def _changes(tip: Tip, name: str, at: TableState, threshold: int) -> Changes:
    header = at.header
    saved = tip.position.tables[name]
    counting = int(header["access_threshold"]) < 0 or bool(header["counting"])
    least = threshold * int(header["faae_coefficient"]) if counting else 0
    # Keys that were omitted from earlier deltas have older tickets than the tip.
    since = (tip.full if threshold else tip.position).tables[name].last_ticket
    none = np.empty(0, np.int64)
    changes = Changes(since, none, none if int(header["cut_applied"]) == saved.cuts else _deleted(tip, name, at))
    return _without_rare_keys(tip, name, at, changes, least) if least else changes


def _deleted(tip: Tip, name: str, at: TableState) -> np.ndarray:
    live = np.sort(np.concatenate([np.empty(0, np.int64), *(
        entries["key"][table_rows.trained(entries)] for entries in table_rows.entry_blocks(at))]))
    return np.concatenate([np.empty(0, np.int64), *(
        block.keys[~places(live, block.keys)[1]] for block in _saved_counts(tip, name))])


def _without_rare_keys(tip: Tip, name: str, at: TableState, changes: Changes, least: int) -> Changes:
    """Return ``changes`` without keys that occurred fewer than ``least`` times since they were last saved."""
    changed = [entries[changes.among(entries)] for entries in table_rows.entry_blocks(at)]
    keys = np.concatenate([np.empty(0, np.int64), *(entries["key"] for entries in changed)])
    counts = np.concatenate([np.empty(0, np.int64), *(entries["count"] for entries in changed)])
    order = np.argsort(keys)
    keys = keys[order]
    counts = counts[order]
    before = np.zeros(len(keys), np.int64)
    for block in _saved_counts(tip, name):
        place, is_there = places(keys, block.keys)
        before[place[is_there]] = block.counts[is_there]
    count_restarted = counts < before  # the key was evicted since the save
    seldom = counts - np.where(count_restarted, 0, before) < least
    deleted = np.concatenate([changes.deleted, keys[seldom & count_restarted]])
    return changes._replace(left_out=keys[seldom], deleted=deleted)


def _saved_counts(tip: Tip, name: str) -> Iterator[KeyBlock]:
    with open_keys(tip.prefix) as checkpoint:
        yield from checkpoint.counts(name, tip.rank, tip.ranks)
