"""Saving: one directory is written aside, made durable, and renamed; that rename is the commit of both parts."""
import contextlib
import logging
import os
import time
from typing import Callable, Dict, Iterable, Iterator, Optional, Sequence, Union

import numpy as np

from ascpipe.checkpoint import checks, dense_part, disk, retention, staging
from ascpipe.checkpoint.contents import Block, KeyBlock, Link, PartedBlock, Position, TableSpec
from ascpipe.checkpoint.digests import digest_of
from ascpipe.checkpoint.errors import CheckpointError, CheckpointPathError, NotPublishedError, NotSavedError
from ascpipe.checkpoint.folder_writer import TableFolders
from ascpipe.checkpoint.manifest import Manifest, SavedFile, encoded_manifest, encoded_pair
from ascpipe.checkpoint.paths import DENSE, MANIFEST, MARKER, PAIR, Place, place_of_save
from ascpipe.checkpoint.table_folders import all_pieces
from ascpipe.checkpoint.tree import open_tree, why

Progress = Callable[[int, int], None]  #: (bytes written, bytes needed), of the sparse part


_log = logging.getLogger(__name__)


class CheckpointWriter:
    """Writes one checkpoint; leaving the ``with`` without a commit removes everything that was written.

    ::

        with CheckpointWriter("dir", "model.ckpt", 100, progress) as writer:
            saver.save(session, writer.dense_prefix, write_state=False)  # TensorFlow's, without a step of its own
            writer.begin_tables(specs)
            for spec in specs:
                writer.write_table(spec.name, blocks(spec), candidates(spec))
            prefix = writer.commit(position)  # "dir/model.ckpt-100"

    One thread at a time. Any failure is a ``NotSavedError``: earlier checkpoints are as they were.

    Attributes:
        prefix: ``directory/base-step``, the name that users give to the checkpoint.
        dense_prefix: where TensorFlow shall write its part: ``<dense_prefix>.index``, ``.data-*`` and ``.meta``.
        needed_bytes: of the sparse part, its records aside.
        written_bytes: of these, so far.
    """

    def __init__(self, directory: str, base: str, step: Optional[int], progress: Optional[Progress] = None, *,
                 dense: bool = True) -> None:
        """Check what is given; nothing is written before ``with``.

        Args:
            step: of the save, 0 or more; None: the name gets no suffix.
            progress: called after each block.
            dense: False: there is no dense part.

        Raises:
            CheckpointPathError: a path or name that we refuse.
        """
        self._place = place_of_save(directory, base, step)
        self._name = self._place.sparse
        self._parent: Optional[Link] = None
        self._step = step
        self._specs: Dict[str, TableSpec] = {}
        self._progress = progress
        self._dense = dense
        self._saved: Dict[str, Dict[str, SavedFile]] = {}
        self._directory_fd: Optional[int] = None
        self._staging: Optional[staging.Staging] = None
        self.prefix = self._place.prefix
        self._link: Optional[Link] = None
        self.needed_bytes = self.written_bytes = 0

    @property
    def link(self) -> Link:
        """What a delta upon it has as its parent; after the commit."""
        if self._link is None:
            raise ValueError("checkpoint {} is not committed".format(self.prefix))
        return self._link

    @property
    def dense_prefix(self) -> str:
        """Where TensorFlow shall write its part: ``<dense_prefix>.index``, ``.data-*`` and ``.meta``."""
        return os.path.join(self._place.directory, self._stage().name, DENSE, self._place.stem)

    def has_dense_of(self, prefix: str) -> bool:
        """Whether TensorFlow has written here, byte by byte, what it wrote for that checkpoint; its graph aside."""
        try:
            with contextlib.closing(open_tree(prefix)) as tree:
                there = tree.records().pair.dense
        except CheckpointError:
            return False
        with self._failing():
            here = dense_part.make_durable(self._stage().fd, self._place.stem, needed=self._dense)
        return dense_part.variables_of(here) == dense_part.variables_of(there)

    def __enter__(self) -> "CheckpointWriter":
        """Make the directories; remove what dead saves left.

        Raises:
            CheckpointPathError: the directory is a link.
            NotSavedError: no permission, or the place is taken by something that is not ours.
        """
        with self._failing():
            self._directory_fd = _opened(self._place)
            staging.sweep(self._directory_fd)
            self._check_place()
            self._staging = staging.Staging(self._directory_fd)
            disk.close(disk.make_directory(self._staging.fd, DENSE))
        return self

    def begin_tables(self, tables: Sequence[TableSpec], parent: Optional[Link] = None) -> None:
        """Say what will be written.

        Args:
            tables: of all tables, with the number of their rows and candidates.
            parent: makes it a delta, whose tables are what changed since that checkpoint of the directory. A delta
                never replaces a checkpoint.

        Raises:
            ValueError: a spec that makes no sense.
            NotSavedError: too little space, or the place of a delta is taken.
        """
        checks.check_specs(tables, delta=parent is not None)
        self._specs = {spec.name: spec for spec in tables}
        self._parent = parent
        self._name = self._place.sparse if parent is None else self._place.delta
        self.needed_bytes = sum(piece.file_bytes for spec in tables for piece in all_pieces(spec))
        with self._failing():
            self._check_place()
            free = disk.free_bytes(self._directory())
            if free < self.needed_bytes:
                raise self._failure("the disk has {} bytes left".format(free))
            self._stage().sync_marker()

    def write_table(self, name: str, blocks: Iterable[Union[Block, PartedBlock]],
                    candidates: Iterable[KeyBlock] = (),
                    pool: Optional[np.ndarray] = None, deleted: Optional[np.ndarray] = None) -> None:
        """Write one table, once, in any order of tables.

        Args:
            blocks: ``rows`` keys of its spec in all, each once; the arrays are not kept.
            candidates: ``candidates`` keys in all.
            pool: float32[pool_rows, dim] of initial rows of kind 4, else None.
            deleted: int64[deleted], the deleted keys; None: there are none.

        Raises:
            ValueError: another dtype, shape or number of keys than the spec says.
            NotSavedError: the disk refused.
        """
        spec = self._specs.get(name)
        if spec is None or name in self._saved:
            raise ValueError("table {!r} {}".format(
                name, "is not among those of this save" if spec is None else "was written already"))
        if pool is None and spec.initial is not None and spec.initial.pool_rows:
            raise ValueError("table {!r}: its pool of initial rows is missing".format(name))
        with self._failing(), TableFolders(self._stage().fd, spec) as folders:
            for block in blocks:
                self._wrote(folders.write_block(block))
            for candidate_block in candidates:
                self._wrote(folders.write_candidates(candidate_block))
            self._wrote(folders.write_deleted(np.empty(0, np.int64) if deleted is None else deleted))
            if pool is not None:
                self._wrote(folders.write_pool(pool))
            self._saved[name] = folders.finish()
            self._wrote(sum(len(piece.attribute) for piece in all_pieces(spec)))

    def commit(self, position: Position) -> str:
        """Make the checkpoint durable and give it its name; one of that name is exchanged for it atomically.

        Returns:
            ``prefix``.

        Raises:
            ValueError: a table was not written, or the position makes no sense.
            NotSavedError: the disk refused, or TensorFlow's part is not there.
            NotPublishedError: the checkpoint is complete and restores, but what follows the commit failed.
        """
        missing = sorted(set(self._specs) - set(self._saved))
        if missing:
            raise ValueError("not written yet: table {}".format(", ".join(missing)))
        checks.check_position(position, self._specs)
        manifest = encoded_manifest(Manifest(self._step, self._place.stem, time.time(), tuple(self._specs.values()),
                                             self._saved, position, self._parent))
        stage = self._stage()
        with self._failing():
            dense = dense_part.make_durable(stage.fd, self._place.stem, needed=self._dense)
            disk.write_file(stage.fd, MANIFEST, manifest)
            disk.write_file(stage.fd, PAIR, encoded_pair(manifest, dense))
            disk.sync(stage.fd)
            self._check_place()
            replaced = self._take_place(stage.name)
        self._link = Link(self._place.stem, digest_of(manifest))
        self._publish(stage, dense, replaced)
        return self.prefix

    def __exit__(self, *reason: object) -> None:
        self._abandon()

    def _stage(self) -> staging.Staging:
        if self._staging is None:
            raise ValueError("checkpoint {}: it is written inside `with`, and only until it is committed or has "
                             "failed".format(self.prefix))
        return self._staging

    def _wrote(self, count: int) -> None:
        self.written_bytes += count
        if self._progress is not None:
            self._progress(self.written_bytes, self.needed_bytes)

    def _check_place(self) -> None:
        """The place is free, or that of a checkpoint of ours, which a delta does not replace."""
        taken = [name for name in self._place.names if disk.is_there(self._directory(), name)]
        if self._parent is not None and taken:
            raise self._failure("{} is there, and a delta replaces nothing. Save the whole".format(taken[0]))
        try:
            fd = disk.open_directory(self._name, self._directory_fd)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._failure("{} is in the way: {}".format(self._name, why(error))) from error
        with disk.closing(fd):
            if not disk.is_there(fd, MARKER):
                raise self._failure("{} is in the way, and ascpipe did not make it. Move it away, or save under "
                                    "another name".format(self._name))

    def _take_place(self, name: str) -> Optional[str]:
        """Rename ours to its place: the commit. The name that the one before it then has, if there was one."""
        directory_fd, place = self._directory(), self._place
        if not disk.is_there(directory_fd, self._name):
            disk.rename(directory_fd, name, self._name)
            return None
        if disk.try_exchange(directory_fd, name, place.sparse):
            return name
        # For a moment there is only the displaced one, which readers and the next save know.
        disk.rename(directory_fd, place.sparse, place.displaced)
        try:
            disk.rename(directory_fd, name, place.sparse)
        except OSError:
            disk.rename(directory_fd, place.displaced, place.sparse)
            raise
        return place.displaced

    def _publish(self, stage: staging.Staging, dense: Dict[str, SavedFile], replaced: Optional[str]) -> None:
        """What follows the commit: durability of the name, TensorFlow's files in their places, the old one's end."""
        self._staging = None
        directory_fd = self._directory()
        try:
            disk.sync(directory_fd)
            dense_part.publish(stage.fd, dense, directory_fd)
        except OSError as error:
            raise NotPublishedError(self.prefix, os.path.join(self._place.directory, self._name),
                                    why(error)) from error
        finally:
            stage.close()
        if replaced is not None:
            staging.remove_if_possible(directory_fd, replaced)

    def _directory(self) -> int:
        if self._directory_fd is None:
            raise ValueError("checkpoint {}: it is written inside `with`".format(self.prefix))
        return self._directory_fd

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Whatever goes wrong inside ends the save; what the system says becomes a NotSavedError."""
        try:
            yield
        except OSError as error:
            raise self._failure(why(error)) from error
        except BaseException:
            self._abandon()
            raise

    def _failure(self, reason: str) -> NotSavedError:
        """The error that says so, after the clean-up, of which it tells."""
        state = "Nothing was left behind."
        if self._staging is not None and not self._abandon_staging():
            state = "What was written is left in {}, the next save removes it.".format(self._place.directory)
        newest = self._newest()
        self._abandon()
        return NotSavedError(self.prefix, reason, self.written_bytes, self.needed_bytes, "{} {}".format(state, newest))

    def _newest(self) -> str:
        try:
            found = retention.complete_checkpoints(self._place.directory)
        except (OSError, CheckpointPathError):
            return "Earlier checkpoints were not touched."
        return "{} is intact.".format(found[-1].prefix) if found else "There is no earlier checkpoint."

    def _abandon_staging(self) -> bool:
        stage, self._staging = self._staging, None
        if stage is None:
            return True
        stage.close()
        return staging.remove_if_possible(self._directory(), stage.name)

    def _abandon(self) -> None:
        """Remove what is not committed. May be called again."""
        try:
            self._abandon_staging()
        finally:
            if self._directory_fd is not None:
                disk.close(self._directory_fd)
                self._directory_fd = None


def _opened(place: Place) -> int:
    disk.make_path(place.directory)
    try:
        return disk.open_directory(place.directory)
    except OSError as error:
        if error.errno in disk.IS_LINK:
            raise CheckpointPathError(place.directory, why(error)) from error
        raise
