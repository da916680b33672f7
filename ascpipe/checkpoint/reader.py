"""Functions that open and verify checkpoints."""
import contextlib
import os
from typing import Dict, List, Optional, Tuple

from ascpipe.checkpoint import rec_sdk_format
from ascpipe.checkpoint.block_reader import Checkpoint, Pieces
from ascpipe.checkpoint.chain import MAX_DELTAS, Chain
from ascpipe.checkpoint.contents import Link
from ascpipe.checkpoint.errors import (
    CheckpointError,
    DamagedCheckpointError,
    NoCheckpointError,
    UnverifiedCheckpointError,
)
from ascpipe.checkpoint.paths import DENSE, MANIFEST
from ascpipe.checkpoint.sliced import Sliced
from ascpipe.checkpoint.tree import Tree, open_tree
from ascpipe.checkpoint.verify import EVERYTHING, ONLY_KEYS, Scope, verified

ALLOW_UNVERIFIED = "ASCPIPE_ALLOW_UNVERIFIED"  #: environment variable; 1 has the effect of ``allow_unverified=True``


def open_checkpoint(prefix: str, *, allow_unverified: bool = False) -> Checkpoint:
    """Open a checkpoint and verify its records, the sizes and digests of all files, its keys and its counts.

    A delta is verified together with all its ancestors. The returned checkpoint merges the delta and its ancestors.

    Args:
        prefix: ``dir/base-step`` as returned by ``CheckpointWriter.commit`` and accepted by TensorFlow's Saver.
        allow_unverified: accept checkpoints without an ascpipe manifest, such as Rec SDK's. Only the sizes of
            their files and the uniqueness of keys are checked. ``ASCPIPE_ALLOW_UNVERIFIED=1`` has the same effect.

    Raises:
        CheckpointPathError: the path is not allowed.
        NoCheckpointError: there is no such checkpoint (also a FileNotFoundError).
        DamagedCheckpointError: the checkpoint differs from the saved data.
        UnverifiedCheckpointError: there is no ascpipe manifest, and ``allow_unverified`` is not set.
        CheckpointError: the checkpoint is a delta without an ascpipe manifest.
    """
    return _opened(prefix, EVERYTHING, allow_unverified=allow_unverified)


def _opened(prefix: str, scope: Scope, *, allow_unverified: bool = False) -> Checkpoint:
    tree = open_tree(prefix)
    try:
        marked = tree.is_marked()
        if not marked and tree.is_delta:
            raise CheckpointError("Checkpoint {} is a delta without a manifest of ascpipe, so its base is unknown. "
                                  "Nothing was changed. Restore the full checkpoint before it".format(prefix))
        if not marked and not (allow_unverified or os.environ.get(ALLOW_UNVERIFIED) == "1"):
            raise UnverifiedCheckpointError(prefix)
        if not marked:
            return rec_sdk_format.checkpoint_of(tree)
    except BaseException:
        tree.close()
        raise
    return _ours(tree, scope)


def open_table(prefix: str, table: str, pieces_of: Pieces) -> Checkpoint:
    """Open a checkpoint to read some pieces of one table with ``Checkpoint.arrays``.

    The other rows and the variables are not verified and cannot be read. The errors are the same as in
    ``open_checkpoint``. If the table does not exist, ``Checkpoint.tables`` does not contain its name.
    """
    return _opened(prefix, Scope(lambda spec, rank: pieces_of(spec) if spec.name == table else (), dense=False))


def open_keys(prefix: str) -> Checkpoint:
    """Open a checkpoint to call ``Checkpoint.counts``. The rows are not verified and cannot be read."""
    return _ours(open_tree(prefix), ONLY_KEYS)


def open_delta(prefix: str) -> Checkpoint:
    """Open and verify a checkpoint of ascpipe without its ancestors. For a delta, only the keys of the delta are
    read."""
    tree = open_tree(prefix)
    try:
        return _member(tree, EVERYTHING)[0]
    except BaseException:
        tree.close()
        raise


def _ours(tree: Tree, scope: Scope) -> Checkpoint:
    """Verify and return the ascpipe checkpoint in ``tree``. A delta is merged with its ancestors."""
    members: List[Checkpoint] = []  # newest first
    link: Optional[Link] = None
    with contextlib.ExitStack() as opened:
        while True:
            opened.callback(tree.close)
            member, parent = _member(tree, scope)
            if link is not None and member.link != link:
                raise DamagedCheckpointError(
                    members[-1].prefix, MANIFEST, "it is based on another {} than the checkpoint that has this name now"
                    .format(link.stem))
            members.append(member)
            link = parent
            if link is None:
                break
            if len(members) > MAX_DELTAS:
                raise tree.damaged(MANIFEST, "the chain has more than {} deltas".format(MAX_DELTAS))
            tree = tree.open_parent(link)
        found = members[0] if len(members) == 1 else Chain(members[::-1])
        opened.pop_all()
    return found


def _member(tree: Tree, scope: Scope) -> Tuple[Checkpoint, Optional[Link]]:
    """Verify one checkpoint. Return the checkpoint without its ancestors, and the link to the checkpoint's parent."""
    records, stamps = verified(tree, scope)
    manifest = records.manifest
    dense = os.path.join(tree.path, DENSE, manifest.stem) if records.pair.dense else None
    found = (Checkpoint(tree, manifest.step, manifest.tables, manifest.position, dense, stamps[0])
             if len(stamps) == 1 else Sliced(tree, manifest, dense, stamps))
    found.link = Link(manifest.stem, records.pair.manifest)
    return found, manifest.parent


def trained_batches(prefix: str) -> Dict[str, int]:
    """Return a dict from stream name to the number of batches that rank 0 has fetched, for ``dataset.skip(n)``.

    Batches of ``session.run`` calls that did not train are included. A checkpoint that was converted from TensorFlow
    has no streams, so the dict is empty.

    Only the manifest and the pair record are verified.

    Raises:
        CheckpointPathError: the path is not allowed.
        NoCheckpointError: there is no such checkpoint (also a FileNotFoundError).
        DamagedCheckpointError: the manifest differs from the saved data.
        UnverifiedCheckpointError: there is no ascpipe manifest.
    """
    with contextlib.closing(open_tree(prefix)) as tree:
        if not tree.is_marked():
            raise UnverifiedCheckpointError(prefix)
        return dict(tree.records().manifest.position.trained_batches)


def table_names(prefix: str) -> List[str]:
    """Return the names of the tables of a checkpoint, or an empty list if ascpipe saved no tables in it.

    Only the manifest and the pair record are verified.

    Raises:
        CheckpointPathError, DamagedCheckpointError: the same errors as in ``trained_batches``.
    """
    try:
        with contextlib.closing(open_tree(prefix)) as tree:
            return [table.name for table in tree.records().manifest.tables] if tree.is_marked() else []
    except NoCheckpointError:
        return []
