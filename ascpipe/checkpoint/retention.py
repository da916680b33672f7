"""Functions that list the checkpoints of a directory, and remove checkpoints."""
import contextlib
import os
from typing import Dict, List, NamedTuple, Optional, Tuple

from ascpipe.checkpoint import disk, staging
from ascpipe.checkpoint.contents import Link
from ascpipe.checkpoint.errors import CheckpointError, DamagedCheckpointError, NoCheckpointError, NotRemovedError
from ascpipe.checkpoint.paths import DENSE, Place, checked_directory, place_of, stem_of
from ascpipe.checkpoint.tree import Records, Tree, open_place, open_tree, why


class Found(NamedTuple):
    """Complete checkpoint. A checkpoint is complete if its records are intact and every file has the recorded size.

    Attributes:
        prefix: ``directory/base-step``.
        step: training step in the manifest, or None if the checkpoint was saved without a step.
        is_delta: whether the checkpoint is a delta. All ancestors of a listed delta are complete.
        link: the ``parent`` argument for a new delta that is based on this checkpoint.
    """

    prefix: str
    step: Optional[int]
    is_delta: bool
    link: Link


def complete_checkpoints(directory: str) -> List[Found]:
    """List the complete checkpoints of a directory, sorted by step. Checkpoints without a step are first. Digests are
    not verified.

    Raises:
        CheckpointPathError: the path is not allowed.
        OSError: the directory cannot be listed.
    """
    whole = {stem: records for stem, records in _records(directory).items() if records is not None}
    found = [Found(os.path.join(directory, stem), records.manifest.step, records.manifest.parent is not None,
                   Link(stem, records.pair.manifest))
             for stem, records in whole.items() if _stands(records, whole)]
    return sorted(found, key=lambda one: (-1 if one.step is None else one.step, one.prefix))


def deltas_of(directory: str, base: str) -> List[str]:
    """In a directory, list the prefixes of all deltas with the base name ``base``. A delta is listed before its
    ancestors.

    Raises:
        CheckpointPathError: the path is not allowed.
        OSError: the directory cannot be listed.
    """
    parents = {}
    for stem, records in _records(directory, sizes=False).items():
        manifest = None if records is None else records.manifest
        if manifest is not None and manifest.parent is not None and stem in (base, "{}-{}".format(base, manifest.step)):
            parents[stem] = manifest.parent.stem
    found: List[str] = []
    while parents:
        leaves = sorted(set(parents) - set(parents.values())) or sorted(parents)
        found += leaves
        for stem in leaves:
            del parents[stem]
    return [os.path.join(directory, stem) for stem in found]


def is_delta(prefix: str) -> bool:
    """Return whether the checkpoint ``prefix`` exists and is a delta."""
    try:
        tree = open_tree(prefix)
    except CheckpointError:
        return False
    tree.close()
    return tree.is_delta


def _records(directory: str, *, sizes: bool = True) -> Dict[str, Optional[Records]]:
    """Return a dict from the stem of each checkpoint to the checkpoint's records.

    Damaged or unreadable records become None. If ``sizes`` is true, the records of a checkpoint with a wrong file size
    also become None.
    """
    try:
        directory_fd = open_place(Place(directory, checked_directory(directory), ""))
    except NoCheckpointError:
        return {}
    with disk.closing(directory_fd):
        stems = {stem_of(name) for name in disk.names(directory_fd)}
        return {stem: _whole_records(Place(os.path.join(directory, stem), directory, stem), directory_fd, sizes=sizes)
                for stem in stems if stem is not None}


def _whole_records(place: Place, directory_fd: int, *, sizes: bool) -> Optional[Records]:
    try:
        with contextlib.closing(Tree(place, directory_fd)) as tree:
            records = tree.records()
            return records if not sizes or _sizes_agree(tree, records) else None
    except (CheckpointError, OSError):
        return None


def _stands(records: Records, whole: Dict[str, Records]) -> bool:
    """Return whether ``whole`` contains all ancestors of a checkpoint."""
    while records.manifest.parent is not None:
        link = records.manifest.parent
        parent = whole.get(link.stem)
        if parent is None or parent.pair.manifest != link.manifest:
            return False
        records = parent
    return True


def _sizes_agree(tree: Tree, records: Records) -> bool:
    wanted: Dict[Tuple[str, ...], int] = {(DENSE, name): saved.size for name, saved in records.pair.dense.items()}
    for table, part, piece in records.manifest.arrays():
        wanted[table, piece.folder, part.data] = piece.data_bytes
        wanted[table, piece.folder, part.attribute] = len(piece.attribute)
    return all(tree.file_size(names) == size for names, size in wanted.items())


def remove_checkpoint(prefix: str) -> None:
    """Remove the sparse and the dense part of a checkpoint.

    If the process is killed, the checkpoint is either intact or no longer listed; the next save removes remaining
    files. Symbolic links are not followed. Dense files are removed only if they belong to the checkpoint.

    Raises:
        CheckpointPathError: the path is not allowed.
        NoCheckpointError: there is no such checkpoint.
        NotRemovedError: the checkpoint was not written by ascpipe, a delta depends on it, or a system call failed.
    """
    place = place_of(prefix)
    with disk.closing(open_place(place)) as directory_fd:
        with contextlib.closing(Tree(place, directory_fd)) as tree:
            try:
                records = tree.records()
            except DamagedCheckpointError as error:
                raise NotRemovedError(tree.path, "only checkpoints of ascpipe are removed, and its records do not "
                                      "identify it as one ({}: {}). Delete the directory yourself".format(
                                          error.file, error.reason)) from error
        _remove(directory_fd, tree, records)


def _check_alone(tree: Tree, mine: Records) -> None:
    for stem, records in _records(tree.place.directory, sizes=False).items():
        parent = None if records is None else records.manifest.parent
        if parent is not None and parent.manifest == mine.pair.manifest:
            raise NotRemovedError(tree.path, "the delta {} is based on it. Remove the delta first".format(stem))


def _remove(directory_fd: int, tree: Tree, records: Records) -> None:
    name = staging.new_name()
    try:
        _check_alone(tree, records)
        disk.rename(directory_fd, tree.name, name)
        disk.sync(directory_fd)
        staging.discard(directory_fd, name, copies=True)
        disk.sync(directory_fd)
    except OSError as error:
        raise NotRemovedError(tree.path, "{}. If its name was removed, the next save into its directory removes the "
                                         "rest".format(why(error))) from error
