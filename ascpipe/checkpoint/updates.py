"""Export of updates for servers: the changes of delta checkpoints, as files in a directory (update_file.py)."""
import contextlib
import os
import time
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.block_reader import Checkpoint
from ascpipe.checkpoint.chain import MAX_DELTAS
from ascpipe.checkpoint.contents import Link, TableSpec
from ascpipe.checkpoint.errors import NoCheckpointError, UnverifiedCheckpointError, UpdateNotExportedError
from ascpipe.checkpoint.paths import checked_directory
from ascpipe.checkpoint.reader import open_checkpoint, open_delta
from ascpipe.checkpoint.retention import complete_checkpoints
from ascpipe.checkpoint.table_file import Source, shown_blocks, source_of
from ascpipe.checkpoint.tables_writer import Progress
from ascpipe.checkpoint.tree import Tree, open_tree, why
from ascpipe.checkpoint.update_file import TEMPORARY, Update, Version, read_update, sequences, write_update

KEEP = MAX_DELTAS  #: default of ``keep``

_LOCK = ".lock"


class ExportedUpdate(NamedTuple):
    """An update that was written.

    Attributes:
        path: path of the file.
        checkpoint: prefix of the checkpoint.
        kind: ``"full"`` or ``"delta"``.
        base_step: step of the rows that a delta changes, or None.
        step: step of the resulting rows.
        rows: number of rows in the file, of all tables.
        deleted: number of deleted keys in the file, of all tables.
        size: bytes of the file.
    """

    path: str
    checkpoint: str
    kind: str
    base_step: Optional[int]
    step: int
    rows: int
    deleted: int
    size: int


class _Member(NamedTuple):
    """Checkpoint whose manifest and pair record have been read. The rows have not been read.

    Attributes:
        prefix: prefix of the checkpoint.
        version: step and digest.
        base: digest of the parent, or None for a full checkpoint.
        thresholds: access threshold by table name.
    """

    prefix: str
    version: Version
    base: Optional[str]
    thresholds: Dict[str, int]


def export_updates(checkpoint: str, to: str, keep: int = KEEP,
                   progress: Optional[Progress] = None) -> List[ExportedUpdate]:
    """Write the changes since the newest update of a directory, one file for each delta checkpoint.

    One file with all rows (a full update) is written instead if the newest update is not an ancestor of the checkpoint,
    or if an access threshold has changed since then. A full update is also written if more than ``keep`` deltas would
    follow the last full update. It replaces all older files. Nothing is written if the newest update has the rows of
    the checkpoint.

    Args:
        checkpoint: ``dir/base-step``, or a directory of checkpoints, whose newest checkpoint is used.
        to: directory of the updates. It is created if it is missing.
        keep: maximum number of deltas after a full update; 0 means that all updates are full.
        progress: called with (rows so far, all rows) of the file that is being written.

    Raises:
        UpdateNotExportedError: the files cannot be written, or the checkpoint has no step.
        CheckpointError: the checkpoint is missing, damaged or unverified.
    """
    checked_directory(to)
    prefix = _newest(checkpoint) if os.path.isdir(checkpoint) else checkpoint
    try:
        disk.make_path(to)
        with disk.closing(disk.open_directory(to)) as fd, _locked(fd, prefix, to):
            return _export(prefix, to, fd, keep, progress)
    except OSError as error:
        if isinstance(error, NoCheckpointError):
            raise
        raise UpdateNotExportedError(prefix, to, "{}. Check the directory and its free space".format(why(error))
                                     ) from error


def _newest(directory: str) -> str:
    found = [one for one in complete_checkpoints(directory) if one.step is not None]
    if not found:
        raise NoCheckpointError(os.path.join(directory, "sparse-*"))
    return found[-1].prefix


@contextlib.contextmanager
def _locked(directory_fd: int, prefix: str, to: str) -> Iterator[None]:
    """Context manager that locks a directory against other writers, and removes files of killed writers."""
    with contextlib.suppress(FileExistsError):
        disk.close(disk.create_file(directory_fd, _LOCK))
    with disk.closing(disk.open_file(directory_fd, _LOCK, writing=True)) as lock:
        if not disk.try_lock(lock):
            raise UpdateNotExportedError(prefix, to, "another process is writing an update. Export to each directory "
                                         "from one process")
        for name in disk.names(directory_fd):
            if name.startswith(TEMPORARY):
                disk.try_unlink(directory_fd, name)
        yield


def _export(prefix: str, to: str, fd: int, keep: int, progress: Optional[Progress]) -> List[ExportedUpdate]:
    known = sequences(disk.names(fd))
    last: Optional[Update] = None
    with contextlib.suppress(ValueError, OSError, IndexError):  # a full update follows a damaged update
        last = read_update(fd, list(known)[-1])
    members = [] if last is None else _members_since(prefix, to, last.version.checkpoint)
    if last is None or not _continues(last, members, [is_full for _, is_full in known.values()], keep):
        last = None
        with contextlib.closing(open_tree(prefix)) as tree:
            members = [_member(tree, to)[0]]
    sequence = max([0, *(number for number, _ in known.values())])
    written = []
    for member in members:
        sequence = max(sequence + 1, int(time.time() * 1000))
        update = Update(sequence, None if last is None else last.version, member.version, member.thresholds)
        written.append(_write(member, to, fd, update, progress))
        if last is None:
            for name in known:
                disk.try_unlink(fd, name)
        last = update
    return written


def _members_since(prefix: str, to: str, last: str) -> List[_Member]:
    """Return the checkpoint and its ancestors that are newer than the checkpoint ``last``, oldest first."""
    members: List[_Member] = []
    tree = open_tree(prefix)
    while True:
        with contextlib.closing(tree):
            member, parent = _member(tree, to)
            if member.version.checkpoint == last:
                break
            members.insert(0, member)
            if parent is None or parent.manifest == last or len(members) > MAX_DELTAS:
                break
            tree = tree.open_parent(parent)
    return members


def _member(tree: Tree, to: str) -> Tuple[_Member, Optional[Link]]:
    prefix = tree.place.prefix
    if not tree.is_marked():
        raise UnverifiedCheckpointError(prefix)
    manifest, pair = tree.records()
    if manifest.step is None:
        raise UpdateNotExportedError(prefix, to, "it was saved without a step. Pass global_step to the Saver")
    thresholds = {spec.name: -1 if spec.policies is None else spec.policies.access_threshold
                  for spec in manifest.tables}
    parent = manifest.parent
    return _Member(prefix, Version(manifest.step, pair.manifest), None if parent is None else parent.manifest,
                   thresholds), parent


def _continues(last: Update, members: Sequence[_Member], are_full: Sequence[bool], keep: int) -> bool:
    """Return whether one delta for each checkpoint in ``members`` can follow the update ``last``. ``are_full`` says for
    each existing update whether the update is full.
    """
    deltas = are_full[::-1].index(True) if True in are_full else len(are_full)
    return (deltas + len(members) <= keep and all(member.base is not None for member in members)
            and (not members or members[0].base == last.version.checkpoint)
            and all(member.thresholds == last.thresholds for member in members))


def _write(member: _Member, to: str, fd: int, update: Update, progress: Optional[Progress]) -> ExportedUpdate:
    is_full = update.base is None
    with open_checkpoint(member.prefix) if is_full else open_delta(member.prefix) as checkpoint:
        if checkpoint.link is None or checkpoint.link.manifest != member.version.checkpoint:
            raise UpdateNotExportedError(member.prefix, to, "another checkpoint has replaced it. Export again")
        source: Callable[[Checkpoint, TableSpec], Source] = source_of if is_full else _changes
        counter = _Counter(progress, sum(spec.rows for spec in checkpoint.tables.values()))
        written = write_update(fd, update, {spec.name: counter.counted(source(checkpoint, spec))
                                            for spec in checkpoint.tables.values()})
    return ExportedUpdate(
        os.path.join(to, update.name), member.prefix, "full" if is_full else "delta",
        None if update.base is None else update.base.step, update.version.step, *written)


class _Counter:
    """Counter of the rows that have been written.

    Args:
        progress: called after each block.
        total: number of all rows. The count may stay smaller, because rows that lookups do not find are not written.
    """

    def __init__(self, progress: Optional[Progress], total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0

    def counted(self, source: Source) -> Source:
        """Return a source with the content of ``source``. The new source counts rows when they are read."""
        return source if self._progress is None else source._replace(blocks=lambda parts: self._blocks(source, parts))

    def _blocks(self, source: Source, parts: int) -> Iterator[List[np.ndarray]]:
        for arrays in source.blocks(parts):
            yield arrays
            if parts and self._progress is not None:
                self._done += len(arrays[0])
                self._progress(self._done, self._total)


def _changes(checkpoint: Checkpoint, spec: TableSpec) -> Source:
    """Return the changes of a delta. Keys without a visible row are deleted, because lookups do not find these keys."""
    threshold = -1 if spec.policies is None else spec.policies.access_threshold
    hidden = [block.keys[block.counts < threshold] for block in checkpoint.keys_with_rows(spec.name)]
    candidates = [block.keys for block in checkpoint.candidates(spec.name)]
    deleted = np.concatenate([checkpoint.deleted(spec.name), *hidden, *candidates])
    return Source(spec.dim, lambda parts: shown_blocks(checkpoint, spec, parts=parts), deleted)
