"""Checkpoint writer, which writes a durable temporary directory and renames it to commit the checkpoint."""
import contextlib
import logging
import os
import time
from typing import Dict, Iterator, Optional, Sequence

from ascpipe.checkpoint import dense_part, disk, retention, staging
from ascpipe.checkpoint.contents import Link, Position, Slice, TableSpec
from ascpipe.checkpoint.digests import digest_of
from ascpipe.checkpoint.errors import CheckpointError, CheckpointPathError, NotPublishedError, NotSavedError
from ascpipe.checkpoint.manifest import (
    MAX_BYTES,
    Manifest,
    SavedFile,
    SliceContent,
    decoded_slice,
    encoded_manifest,
    encoded_pair,
    merged,
)
from ascpipe.checkpoint.paths import DENSE, MANIFEST, MARKER, PAIR, Place, place_of_save, slice_record
from ascpipe.checkpoint.tables_writer import Progress, TablesWriter
from ascpipe.checkpoint.tree import open_tree, why

_log = logging.getLogger(__name__)


class CheckpointWriter(TablesWriter):
    """Writer of one checkpoint. All written files are removed if the ``with`` block exits without a commit.

    ::

        with CheckpointWriter("dir", "model.ckpt", 100, progress) as writer:
            saver.save(session, writer.dense_prefix, write_state=False)  # no global_step: the prefix contains the step
            writer.begin_tables(specs)
            for spec in specs:
                writer.write_table(spec.name, blocks(spec), candidates(spec))
            prefix = writer.commit(position)  # "dir/model.ckpt-100"

    Only one thread may use a writer at a time. A failed system call raises ``NotSavedError``; earlier checkpoints are
    unchanged. With several ranks, rank 0 uses this class and the other ranks use ``SliceWriter``.

    Attributes:
        prefix: ``directory/base-step``, the user-visible name of the checkpoint.
        dense_prefix: prefix for TensorFlow's part: ``<dense_prefix>.index``, ``.data-*`` and ``.meta``.
        needed_bytes: size of the sparse part without its records.
        written_bytes: bytes written so far.
    """

    def __init__(self, directory: str, base: str, step: Optional[int], progress: Optional[Progress] = None, *,
                 dense: bool = True, ranks: int = 1) -> None:
        """Check the arguments. Nothing is written before the ``with`` block starts.

        Args:
            step: training step of the checkpoint, 0 or more. If None, the name has no suffix.
            progress: called after each block.
            dense: whether there is a dense part.
            ranks: number of ranks that write slices; this process is rank 0.

        Raises:
            CheckpointPathError: a path or name is not allowed.
        """
        super().__init__(place_of_save(directory, base, step), Slice(0, ranks), progress)
        self._name = self._place.sparse
        self._parent: Optional[Link] = None
        self._step = step
        self._dense = dense
        self._directory_fd: Optional[int] = None
        self._staging: Optional[staging.Staging] = None
        self._link: Optional[Link] = None

    @property
    def link(self) -> Link:
        """Return the ``parent`` argument for a delta of this checkpoint. Raise ``ValueError`` before the commit."""
        if self._link is None:
            raise ValueError("checkpoint {} is not committed".format(self.prefix))
        return self._link

    @property
    def dense_prefix(self) -> str:
        """Return the prefix for TensorFlow's part: ``<dense_prefix>.index``, ``.data-*`` and ``.meta``."""
        return os.path.join(self._place.directory, self._stage().name, DENSE, self._place.stem)

    @property
    def staging_name(self) -> str:
        """Return the name of the temporary directory, in which the other ranks write their slices."""
        return self._stage().name

    def has_dense_of(self, prefix: str) -> bool:
        """Return whether this checkpoint and checkpoint ``prefix`` have variable files with equal digests."""
        try:
            with contextlib.closing(open_tree(prefix)) as tree:
                there = tree.records().pair.dense
        except CheckpointError:
            return False
        with self._failing():
            here = dense_part.make_durable(self._stage().fd, self._place.stem, needed=self._dense)
        return dense_part.variables_of(here) == dense_part.variables_of(there)

    def copy_dense_of(self, prefix: str) -> None:
        """Copy the dense part of another checkpoint.

        Raises:
            DamagedCheckpointError: the other checkpoint differs from the saved data.
            NotSavedError: a system call failed.
        """
        with self._failing(), contextlib.closing(open_tree(prefix)) as tree:
            records = tree.records()
            wrong = dense_part.copy(tree.fd, records.manifest.stem, records.pair.dense, self._stage().fd,
                                    self._place.stem)
            if wrong is not None:
                raise tree.damaged(os.path.join(DENSE, wrong), "it differs from the saved bytes")

    def __enter__(self) -> "CheckpointWriter":
        """Create the directories, and remove the remains of crashed saves.

        Raises:
            CheckpointPathError: the directory is a symbolic link.
            NotSavedError: a system call failed, or the name belongs to a directory that ascpipe did not create.
        """
        with self._failing():
            self._directory_fd = _opened(self._place)
            staging.sweep(self._directory_fd)
            self._check_place()
            self._staging = staging.Staging(self._directory_fd)
            disk.close(disk.make_directory(self._staging.fd, DENSE))
        return self

    def begin_tables(self, tables: Sequence[TableSpec], parent: Optional[Link] = None) -> None:
        """Set the tables to write.

        Args:
            tables: specs of all tables, with their counts of rows and candidates.
            parent: None for a full checkpoint, or the checkpoint on which a delta is based. A delta contains only the
                changes since its parent, and never replaces a checkpoint.

        Raises:
            ValueError: a spec is invalid.
            NotSavedError: the disk has too little space, or the name of a delta is in use.
        """
        self._begin(tables, delta=parent is not None)
        self._parent = parent
        self._name = self._place.sparse if parent is None else self._place.delta
        with self._failing():
            self._check_place()
            self._require_space(self._directory())
            self._stage().sync_marker()

    def commit(self, position: Position, slices: Sequence[str] = ()) -> str:
        """Make the checkpoint durable and rename it to its final name. An existing checkpoint of the same name is
        replaced atomically.

        Args:
            slices: results of ``SliceWriter.finish`` on the other ranks, starting with rank 1.

        Returns:
            ``prefix``.

        Raises:
            ValueError: a table was not written, or the position is invalid.
            NotSavedError: a system call failed, TensorFlow's part is missing, or the digest of a slice differs.
            NotPublishedError: the checkpoint is complete and can be restored, but an operation after the commit failed.
        """
        content = self._begun().content(position)
        if len(slices) != self._slice.ranks - 1:
            raise ValueError("{} slices of other ranks, but there are {} ranks".format(len(slices), self._slice.ranks))
        stage = self._stage()
        with self._failing():
            contents = [content, *(self._slice_of(rank, digest) for rank, digest in enumerate(slices, 1))]
            try:
                merged(contents)
            except ValueError as error:
                raise self._failure(str(error)) from error
            manifest = encoded_manifest(Manifest(self._step, self._place.stem, time.time(), tuple(contents),
                                                 self._parent))
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

    def _folder(self) -> int:
        return self._stage().fd

    def _slice_of(self, rank: int, digest: str) -> SliceContent:
        """Read and remove the record of another rank. Return the content of the rank's slice."""
        fd = self._stage().fd
        name = slice_record(rank)
        try:
            record = disk.read_file(fd, name, MAX_BYTES)
            if digest_of(record) != digest:
                raise ValueError("it differs from what rank {} has written".format(rank))
            content = decoded_slice(record, rank, self._slice.ranks, delta=self._parent is not None)
        except (ValueError, TypeError, OverflowError) as error:
            raise self._failure("{}: {}".format(name, error)) from error
        except FileNotFoundError as error:
            raise self._failure("{} does not exist. All ranks must save to one file system".format(name)) from error
        disk.try_unlink(fd, name)
        return content

    def _stage(self) -> staging.Staging:
        if self._staging is None:
            raise ValueError("checkpoint {}: write it inside `with`, before it is committed or has "
                             "failed".format(self.prefix))
        return self._staging

    def _check_place(self) -> None:
        """Check that the checkpoint's name is free, or belongs to an ascpipe checkpoint that may be replaced. A delta
        never replaces a checkpoint.
        """
        taken = [name for name in self._place.names if disk.is_there(self._directory(), name)]
        if self._parent is not None and taken:
            raise self._failure("{} already exists, and a delta does not replace anything. Save a full checkpoint"
                                .format(taken[0]))
        try:
            fd = disk.open_directory(self._name, self._directory_fd)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._failure("{} already exists: {}".format(self._name, why(error))) from error
        with disk.closing(fd):
            if not disk.is_there(fd, MARKER):
                raise self._failure("{} already exists and was not created by ascpipe. Move it, or save under "
                                    "another name".format(self._name))

    def _take_place(self, name: str) -> Optional[str]:
        """Commit the checkpoint: rename directory ``name`` to its final name. Return the new name of the replaced
        checkpoint, or None if no checkpoint was replaced.
        """
        directory_fd = self._directory()
        place = self._place
        if not disk.is_there(directory_fd, self._name):
            disk.rename(directory_fd, name, self._name)
            return None
        if disk.try_exchange(directory_fd, name, place.sparse):
            return name
        # Until the next rename, only the displaced checkpoint exists. Readers and the next save handle this state.
        disk.rename(directory_fd, place.sparse, place.displaced)
        try:
            disk.rename(directory_fd, name, place.sparse)
        except OSError:
            disk.rename(directory_fd, place.displaced, place.sparse)
            raise
        return place.displaced

    def _publish(self, stage: staging.Staging, dense: Dict[str, SavedFile], replaced: Optional[str]) -> None:
        """Make the rename durable, link TensorFlow's files into the parent directory, and remove the replaced
        checkpoint.
        """
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
            raise ValueError("checkpoint {}: write it inside `with`".format(self.prefix))
        return self._directory_fd

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Context manager that abandons the save if its block fails. It converts ``OSError`` to ``NotSavedError``."""
        try:
            yield
        except OSError as error:
            raise self._failure(why(error)) from error
        except BaseException:
            self._abandon()
            raise

    def _failure(self, reason: str) -> NotSavedError:
        """Clean up, and return an error that says whether the clean-up succeeded."""
        state = "Nothing was left behind."
        if self._staging is not None and not self._abandon_staging():
            state = "Partial files are left in {}; the next save removes them.".format(self._place.directory)
        newest = self._newest()
        self._abandon()
        return NotSavedError(self.prefix, reason, self.written_bytes, self.needed_bytes, "{} {}".format(state, newest))

    def _newest(self) -> str:
        try:
            found = retention.complete_checkpoints(self._place.directory)
        except (OSError, CheckpointPathError):
            return "Earlier checkpoints are unchanged."
        return "{} is intact.".format(found[-1].prefix) if found else "There is no earlier checkpoint."

    def _abandon_staging(self) -> bool:
        stage, self._staging = self._staging, None
        if stage is None:
            return True
        stage.close()
        return staging.remove_if_possible(self._directory(), stage.name)

    def _abandon(self) -> None:
        """Remove all files that are not committed. Further calls do nothing."""
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
