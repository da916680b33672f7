"""Which checkpoints a directory has, and the removal of those that are not kept."""
import os
from typing import Dict, List, NamedTuple, Optional, Tuple

from ascpipe.checkpoint import disk, staging
from ascpipe.checkpoint.errors import CheckpointError, NoCheckpointError, NotRemovedError
from ascpipe.checkpoint.paths import DENSE, Place, checked_directory, place_of, stem_of
from ascpipe.checkpoint.pieces import ATTRIBUTE, DATA, all_pieces
from ascpipe.checkpoint.tree import Records, Tree, open_place, why


class Found(NamedTuple):
    """A complete checkpoint: its records are whole and every file has the size they say.

    Attributes:
        prefix: ``directory/base-step``.
        step: of its manifest; None: saved without one.
    """

    prefix: str
    step: Optional[int]


def complete_checkpoints(directory: str) -> List[Found]:
    """Complete checkpoints of ours in a directory by step, those without a step first; digests are not computed.

    Raises:
        CheckpointPathError: a path that we refuse.
        OSError: the directory cannot be listed.
    """
    try:
        directory_fd = open_place(Place(directory, checked_directory(directory), ""))
    except NoCheckpointError:
        return []
    try:
        stems = {stem_of(name) for name in disk.names(directory_fd)} - {None}
        found = [_found(Place(os.path.join(directory, stem), directory, stem), directory_fd)
                 for stem in sorted(stem for stem in stems if stem)]
    finally:
        disk.close(directory_fd)
    return sorted((one for one in found if one is not None),
                  key=lambda one: (-1 if one.step is None else one.step, one.prefix))


def _found(place: Place, directory_fd: int) -> Optional[Found]:
    try:
        tree = Tree(place, directory_fd)
    except CheckpointError:
        return None
    try:
        records = tree.records()
        return Found(place.prefix, records.manifest.step) if _sizes_agree(tree, records) else None
    except (CheckpointError, OSError):
        return None
    finally:
        tree.close()


def _sizes_agree(tree: Tree, records: Records) -> bool:
    wanted: Dict[Tuple[str, ...], int] = {(DENSE, name): saved.size for name, saved in records.pair.dense.items()}
    for spec in records.manifest.tables:
        for piece in all_pieces(spec):
            wanted[spec.name, piece.folder, DATA] = piece.data_bytes
            wanted[spec.name, piece.folder, ATTRIBUTE] = len(piece.attribute)
    return all(tree.file_size(names) == size for names, size in wanted.items())


def remove_checkpoint(prefix: str) -> None:
    """Remove a checkpoint of ours, both parts; a kill leaves it whole, or gone with remains for the next save.

    No link is followed, and dense files are removed only if they are its own.

    Raises:
        CheckpointPathError: a path that we refuse.
        NoCheckpointError: there is none.
        NotRemovedError: it is not ours, or the disk refused.
    """
    place = place_of(prefix)
    directory_fd = open_place(place)
    try:
        tree = Tree(place, directory_fd)
        try:
            tree.records()
        except CheckpointError as error:
            raise NotRemovedError(tree.path, "only checkpoints of ours are, and its records do not say that it is one "
                                             "({}). Remove it yourself if you want to".format(error)) from error
        finally:
            tree.close()
        _remove(directory_fd, tree)
    finally:
        disk.close(directory_fd)


def _remove(directory_fd: int, tree: Tree) -> None:
    name = staging.new_name()
    try:
        disk.rename(directory_fd, tree.name, name)
        disk.sync(directory_fd)
        staging.discard(directory_fd, name, copies=True)
        disk.sync(directory_fd)
    except OSError as error:
        raise NotRemovedError(tree.path, "{}. If its name is gone, the next save into its directory removes the "
                                         "rest".format(why(error))) from error
