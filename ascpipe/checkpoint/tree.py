"""Class ``Tree``, the open directory of a checkpoint.

All files are opened relative to the descriptor of the directory, so a rename of the directory has no effect.
"""
import contextlib
import os
from typing import Iterator, List, NamedTuple, Optional, Sequence

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.contents import Link
from ascpipe.checkpoint.dense_part import is_dense_name
from ascpipe.checkpoint.digests import digest_of
from ascpipe.checkpoint.errors import CheckpointError, CheckpointPathError, DamagedCheckpointError, NoCheckpointError
from ascpipe.checkpoint.manifest import MAX_BYTES, Manifest, Pair, decoded_manifest, decoded_pair
from ascpipe.checkpoint.paths import MANIFEST, MARKER, PAIR, Place, is_delta_name, place_of
from ascpipe.errors.base import shown


def open_place(place: Place) -> int:
    """Return a descriptor of the directory that contains a checkpoint.

    Raises:
        NoCheckpointError: the directory does not exist.
        CheckpointPathError: the path is a symbolic link or not a directory.
        CheckpointError: a system call failed.
    """
    try:
        return disk.open_directory(place.directory)
    except FileNotFoundError as error:
        raise NoCheckpointError(place.directory) from error
    except OSError as error:
        raise _refused(place.directory, error) from error


def open_tree(prefix: str) -> "Tree":
    """Open the sparse part of a checkpoint. Raise the same errors as ``place_of``, ``open_place`` and ``Tree``."""
    place = place_of(prefix)
    with disk.closing(open_place(place)) as directory_fd:
        return Tree(place, directory_fd)


def _refused(path: str, error: OSError) -> CheckpointError:
    if error.errno in disk.IS_LINK:
        return CheckpointPathError(path, why(error))
    return CheckpointError("{} cannot be opened: {}. Nothing was changed".format(path, why(error)))


def why(error: OSError) -> str:
    """Return one sentence that describes a system error."""
    what = "it is a symbolic link, which is never followed, or not a directory" if error.errno in disk.IS_LINK else (
        error.strerror or error)
    return "{}{}".format(what, " ({})".format(error.filename) if error.filename else "")


class Records(NamedTuple):
    """Manifest of a checkpoint, and the pair record that belongs to the manifest."""

    manifest: Manifest
    pair: Pair

    @property
    def bytes(self) -> int:
        """Return the total size of the files of the checkpoint, without its records."""
        return (sum(piece.file_bytes for _, _, piece in self.manifest.arrays())
                + sum(file.size for file in self.pair.dense.values()))

    @property
    def kind(self) -> str:
        """Return ``full`` or ``delta``."""
        return "full" if self.manifest.parent is None else "delta"


class Tree:
    """Open directory of the sparse part of a checkpoint.

    Attributes:
        place: location of the checkpoint.
        name: name of the directory.
        is_delta: whether the checkpoint is a delta.
        fd: descriptor of the directory.
    """

    def __init__(self, place: Place, directory_fd: int) -> None:
        """Open the sparse part. ``directory_fd`` is the directory that contains the sparse part.

        Raises:
            NoCheckpointError: the directory does not exist.
            CheckpointPathError: the sparse part is a symbolic link or not a directory.
            CheckpointError: a system call failed.
        """
        self.place = place
        for self.name in place.names:
            self.is_delta = is_delta_name(self.name)
            try:
                self.fd = disk.open_directory(self.name, directory_fd)
                return
            except FileNotFoundError:
                continue
            except OSError as error:
                raise _refused(self.path, error) from error
        raise NoCheckpointError(os.path.join(place.directory, place.sparse))

    @property
    def path(self) -> str:
        """Return the path of the directory. The path is valid until the directory is renamed."""
        return os.path.join(self.place.directory, self.name)

    def is_marked(self) -> bool:
        """Return whether ascpipe created the directory, even if its records are missing."""
        return any(disk.is_there(self.fd, name) for name in (MARKER, MANIFEST, PAIR))

    def records(self) -> Records:
        """Read the manifest and the pair record.

        Raises:
            DamagedCheckpointError: a record is missing or damaged, or the records do not belong together.
        """
        manifest_record = self._record(MANIFEST)
        name = PAIR
        try:
            pair = decoded_pair(self._record(PAIR))
            name = MANIFEST
            manifest = decoded_manifest(manifest_record)
        except (ValueError, TypeError, OverflowError) as error:
            raise self.damaged(name, str(error)) from error
        foreign = [file for file in pair.dense if not is_dense_name(file, manifest.stem)]
        if foreign:
            raise self.damaged(PAIR, "{} is not the name of a dense file".format(shown(foreign[0])))
        if pair.manifest != digest_of(manifest_record):
            raise self.damaged(MANIFEST, "it differs from the file that {} was written for".format(PAIR))
        if manifest.stem != self.place.stem:
            raise self.damaged(MANIFEST, "it was saved under the name {}, which it must keep; a copy belongs in "
                               "another directory".format(shown(manifest.stem)))
        if (manifest.parent is not None) != self.is_delta:
            raise self.damaged(MANIFEST, "it belongs to a {}".format("full checkpoint" if self.is_delta else "delta"))
        return Records(manifest, pair)

    def open_parent(self, link: Link) -> "Tree":
        """Open the parent checkpoint by its name. Raise ``DamagedCheckpointError`` if the parent cannot be opened."""
        try:
            return open_tree(os.path.join(self.place.directory, link.stem))
        except NoCheckpointError as error:
            raise self.damaged(MANIFEST, "it is based on {}, but {} does not exist".format(
                link.stem, error.path)) from error
        except CheckpointError as error:
            raise self.damaged(MANIFEST, "it is based on {}: {}".format(link.stem, error)) from error

    def _record(self, name: str) -> bytes:
        try:
            return disk.read_file(self.fd, name, MAX_BYTES)
        except OSError as error:
            raise self.damaged(name, why(error)) from error

    @contextlib.contextmanager
    def file(self, names: Sequence[str]) -> Iterator[int]:
        """Context manager that opens a file of the checkpoint for reading.

        Each ``OSError`` in the block is converted to ``DamagedCheckpointError``.
        """
        try:
            with disk.closing(self._directory(names[:-1])) as folder:
                file = disk.open_file(folder, names[-1])
            with disk.closing(file):
                yield file
        except OSError as error:
            raise self.damaged(os.path.join(*names), why(error)) from error

    def folders(self, names: Sequence[str]) -> List[str]:
        """Return the sorted names of the subdirectories of a directory. Raise ``OSError`` if the directory cannot be
        listed.
        """
        with disk.closing(self._directory(names)) as fd:
            return [name for name in disk.names(fd) if disk.is_directory(fd, name)]

    def names(self, names: Sequence[str]) -> List[str]:
        """Return the sorted names in a directory, or an empty list if the directory cannot be listed."""
        try:
            with disk.closing(self._directory(names)) as fd:
                return disk.names(fd)
        except OSError:
            return []

    def _directory(self, names: Sequence[str]) -> int:
        fd = disk.open_directory(os.curdir, self.fd)
        for name in names:
            with disk.closing(fd) as outer:
                fd = disk.open_directory(name, outer)
        return fd

    def file_size(self, names: Sequence[str]) -> Optional[int]:
        """Return the length of a file, or None if the file cannot be opened."""
        try:
            with self.file(names) as fd:
                return disk.stamp(fd).size
        except DamagedCheckpointError:
            return None

    def check_content(self, names: Sequence[str], wanted: bytes) -> None:
        """Raise ``DamagedCheckpointError`` unless the content of a file is ``wanted``."""
        with self.file(names) as fd:
            size = disk.stamp(fd).size
            content = bytearray(len(wanted))
            if size == len(wanted):
                disk.read_into(fd, 0, content)
            if size != len(wanted) or content != wanted:
                raise self.damaged(os.path.join(*names), "it differs from what was saved")

    def damaged(self, file: str, reason: str) -> DamagedCheckpointError:
        """Return the error for a damaged file."""
        return DamagedCheckpointError(self.place.prefix, os.path.join(self.name, file), reason)

    def close(self) -> None:
        """Close the descriptor."""
        disk.close(self.fd)
