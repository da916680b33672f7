"""Functions that find and verify the checkpoints of a directory for the command line."""
import contextlib
import os
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.errors import CheckpointError, DamagedCheckpointError, NoCheckpointError
from ascpipe.checkpoint.paths import Place, checked_directory, place_of, stem_of
from ascpipe.checkpoint.reader import open_checkpoint, open_keys
from ascpipe.checkpoint.retention import complete_checkpoints
from ascpipe.checkpoint.tree import Records, Tree, open_place, why
from ascpipe.checkpoint.verify import verified

COMPLETE = "complete"
INCOMPLETE = "incomplete"
DAMAGED = "damaged"
UNVERIFIED = "unverified"

class Looked(NamedTuple):
    """State of a checkpoint according to its records. The data files were not read.

    Attributes:
        place: location of the checkpoint.
        state: COMPLETE; INCOMPLETE if an ancestor or a file is missing, or a file has the wrong length; DAMAGED if the
            records cannot be read; UNVERIFIED if there are no records.
        problem: error that describes the damage, or None.
        records: records of the checkpoint, or None if it is damaged or unverified.
    """

    place: Place
    state: str
    problem: Optional[CheckpointError]
    records: Optional[Records]

    @property
    def order(self) -> Tuple[int, str]:
        """Return the sort key for lists of checkpoints: by step, with checkpoints without a step first."""
        step = None if self.records is None else self.records.manifest.step
        return -1 if step is None else step, self.place.stem


class Verdict(NamedTuple):
    """Result of verifying a checkpoint. ``problem`` is None if the checkpoint is intact."""

    looked: Looked
    problem: Optional[CheckpointError]


def saved_bytes(records: Records) -> int:
    """Return the total size of a checkpoint's files in bytes, without the record files."""
    return (sum(piece.file_bytes for _, _, piece in records.manifest.arrays())
            + sum(file.size for file in records.pair.dense.values()))


def look_at(prefix: str) -> Looked:
    """Return the state of one checkpoint.

    Raises:
        CheckpointPathError: the path is not allowed.
        NoCheckpointError: there is no such checkpoint.
    """
    place = place_of(prefix)
    with _opened(place.directory) as directory_fd:
        return _look(place, directory_fd, _complete(place.directory))


def look_at_all(directory: str) -> List[Looked]:
    """Return the states of all checkpoints of a directory, sorted by step.

    Raises:
        CheckpointPathError: the path is not allowed.
        NoCheckpointError: there is no such directory.
        CheckpointError: a system call failed.
    """
    with _opened(checked_directory(directory)) as directory_fd:
        complete = _complete(directory)
        found = []
        stems = {stem_of(name) for name in disk.names(directory_fd)}
        for stem in sorted(stem for stem in stems if stem is not None):
            with contextlib.suppress(NoCheckpointError):  # just removed
                found.append(_look(Place(os.path.join(directory, stem), directory, stem), directory_fd, complete))
    return sorted(found, key=lambda one: one.order)


def verdicts(prefix: str) -> Iterator[Verdict]:
    """Yield the ``Verdict`` of one checkpoint, or of each checkpoint of a directory as soon as it is verified.

    Raises:
        The errors of ``look_at``.
    """
    if not os.path.isdir(prefix):
        looked = look_at(prefix)
        yield Verdict(looked, _problem(lambda: open_checkpoint(prefix).close()))
        return
    found = look_at_all(prefix)
    if not found:
        raise NoCheckpointError(os.path.join(prefix, "sparse-*"))
    verifier = _Verifier(found)
    for looked in found:
        yield Verdict(looked, verifier.problem(looked))


class _Verifier:
    """Verifier of the checkpoints of a directory. Each checkpoint is read once, even if several deltas depend on the
    checkpoint.
    """

    def __init__(self, found: List[Looked]) -> None:
        self._found = {looked.place.stem: looked for looked in found}
        self._problems: Dict[str, Optional[CheckpointError]] = {}

    def problem(self, looked: Looked) -> Optional[CheckpointError]:
        """Return the error of a checkpoint or of its ancestors, or None if the checkpoint and all ancestors are intact.
        """
        below = [looked]
        while below[-1].place.stem not in self._problems:
            parent = self._parent(below[-1])
            if parent is None or parent in below:
                break
            below.append(parent)
        for one in reversed(below):
            stem = one.place.stem
            if stem not in self._problems:
                self._problems[stem] = self._of_one(one)
        return self._problems[looked.place.stem]

    def _parent(self, looked: Looked) -> Optional[Looked]:
        link = None if looked.records is None else looked.records.manifest.parent
        return None if link is None else self._found.get(link.stem)

    def _of_one(self, looked: Looked) -> Optional[CheckpointError]:
        prefix = looked.place.prefix
        parent = self._parent(looked)
        if looked.records is None:
            return _problem(lambda: open_checkpoint(prefix).close())
        found = _problem(lambda: _verify_files(looked))
        if found is None and looked.records.manifest.parent is not None:
            found = _problem(lambda: open_keys(prefix).close())  # this also checks the tables of the ancestors
        below = None if parent is None else self._problems.get(parent.place.stem)
        if found is None and isinstance(below, DamagedCheckpointError):
            found = DamagedCheckpointError(prefix, below.file, below.reason)
        return found


def _verify_files(looked: Looked) -> None:
    with _opened(looked.place.directory) as directory_fd, contextlib.closing(Tree(looked.place, directory_fd)) as tree:
        verified(tree)


def _complete(directory: str) -> Set[str]:
    return {os.path.basename(found.prefix) for found in complete_checkpoints(directory)}


def _problem(verify: Callable[[], object]) -> Optional[CheckpointError]:
    try:
        verify()
    except CheckpointError as error:
        return error
    except OSError as error:
        return CheckpointError("it cannot be read: {}".format(why(error)))
    return None


@contextlib.contextmanager
def _opened(directory: str) -> Iterator[int]:
    """Context manager that opens a directory. Each ``OSError`` in the block is converted to ``CheckpointError``."""
    with disk.closing(open_place(Place(directory, directory, ""))) as directory_fd:
        try:
            yield directory_fd
        except CheckpointError:
            raise
        except OSError as error:
            raise CheckpointError("{} cannot be read: {}".format(directory, why(error))) from error


def _look(place: Place, directory_fd: int, complete: Set[str]) -> Looked:
    """Return the state of one checkpoint. ``complete`` contains the stems of complete checkpoints."""
    try:
        with contextlib.closing(Tree(place, directory_fd)) as tree:
            if not tree.is_marked():
                return Looked(place, UNVERIFIED, None, None)
            return Looked(place, COMPLETE if place.stem in complete else INCOMPLETE, None, tree.records())
    except NoCheckpointError:
        raise
    except CheckpointError as error:
        return Looked(place, DAMAGED, error, None)
