"""Declares every exception that ascpipe raises on purpose.

::

    AscpipeError
    +-- ConfigError            E402  a setting has a value we refuse
    |   `-- ConfigFileError    E403  the settings file cannot be read
    +-- NameRefusedError       E215  a name of a run that we refuse
    +-- DaemonError            E112  anything else between a trainer, the CLI and a daemon
    |   +-- NotRunningError    E212  no daemon of that name
    |   +-- AlreadyRunsError   E211  a daemon of that name runs already
    |   +-- BusyError          E210  the daemon serves another trainer
    |   +-- RunDirError        E214  a run directory, or one of compiled kernels, is not safely ours
    |   +-- DirectoryFullError E223  one of these has no room
    |   +-- EndpointTooLongError E216 a unix socket path is limited to 107 bytes
    |   +-- NoAnswerError      E218  the daemon did not answer in time
    |   +-- NotStartedError    E213  a daemon or its workers did not get ready
    |   +-- WrongStateError    E219  a verb at the wrong time
    |   +-- PeerRefusedError   E217  not the trainer that is connected or registered
    |   +-- VersionError       E220  trainer and daemon were built from different layouts
    |   +-- SupervisorGoneError E110 the daemon died
    |   +-- DaemonStoppedError E113  the daemon was stopped while it served
    |   +-- RowFileError       E420  a directory cannot have row files
    |   `-- MetricsError       E224  metrics were asked for and cannot be exported
    |       `-- MetricsMissingError E225 the package that they need is not installed
    +-- MessageError           E230  a control message that is not in the schema
    |   +-- ConnectionClosedError E231 the other end of a socket is gone
    |   `-- MessageTimeoutError E232 no whole message in time
    +-- SegmentError           E302  shared memory that is not what it should be
    |   `-- OutOfSharedMemoryError E401 too little memory, found out at start
    +-- WorkerError            E120  a worker process ended
    |   +-- TableWorkerDiedError E122  its state cannot be trusted
    |   +-- KeyWorkerDiedError E130  by anything but SIGKILL
    |   +-- DiskWorkerDiedError E132 by anything but SIGKILL
    |   +-- RowUnreadableError E422  a row that a step needs cannot be read from disk
    |   +-- DiskFullError      E423  rows must go to disk, and none can be written
    |   +-- DiskSilentError    E424  a disk with rows does not answer any more
    |   `-- CrashLoopError     E140  restarted too often
    +-- OpsMissingError        E221  the ops are not built (ascpipe/tfops/load.py)
    +-- OpsMismatchError       E222  they are built for another TensorFlow or layout
    +-- SourcesMissingError    E226  an installed package has no sources to build them from
    +-- OtherProductError      E227  another product's mx_rec is installed, too
    +-- RanksError             E240  ranks cannot be started, or cannot join
    |   +-- HorovodMissingError E241 it is needed for several ranks, and is not there
    |   +-- HorovodVersionError E242 it is another version than the one that is supported
    |   `-- RanksDisagreeError E243  Horovod and the launcher do not say the same
    +-- CombinerError          E250  ids, weights or arguments of a lookup that cannot be combined
    +-- ColumnError            E251  a feature column or an optimizer that tables cannot serve
    +-- UntrainedTableError    E252  a table that the loss depends on, and that no optimizer updates
    +-- TableUseError          E253  a table, its variable or gradient is used like a TensorFlow variable
    +-- NotBuiltYetError       E600  the reference has it, ascpipe does not yet
    +-- CheckpointError        E500  ascpipe/checkpoint/errors.py has the tree of these
    `-- RemoteError            E199  a code of the daemon that this version does not know

Errors of a step come from C++ and are classes of TensorFlow's. Those have a code in their text: E110 as above, E123 (a
step waited for longer than ``wait_timeout_s``), E204 (a forked process uses the trainer's pipeline), E205 (the pipeline
of a graph was not started, or was ended), E301 (damaged state in shared memory, or a damaged message of another rank),
E310, E311 and E312 (an exchange with other ranks came to nothing), E313 (ranks differ in what must be alike), E314 (a
step of one rank failed, or ranks did different things), E320 (a table is full), E321 (no memory is left for it), E322
(a batch comes twice, or too late), E323 (a batch is too large), E324 (bags of ids and their weights do not fit
together), E421 (rows on disk that cannot be read or written); see ``ascpipe/layout/codes.py``.

Codes and attributes are stable; texts are for people and may get better.  An error that was received
as a message (``received``) has its class, code and text, and ``None`` for the other attributes.
"""
from typing import Dict, Iterator, Type

from ascpipe.errors.base import AscpipeError
from ascpipe.errors.daemon import (
    AlreadyRunsError,
    BusyError,
    DaemonError,
    DaemonStoppedError,
    DirectoryFullError,
    EndpointTooLongError,
    MetricsError,
    MetricsMissingError,
    NoAnswerError,
    NotRunningError,
    NotStartedError,
    PeerRefusedError,
    RemoteError,
    RowFileError,
    RunDirError,
    SupervisorGoneError,
    VersionError,
    WrongStateError,
)
from ascpipe.errors.others import (
    ColumnError,
    CombinerError,
    ConfigError,
    ConfigFileError,
    ConnectionClosedError,
    HorovodMissingError,
    HorovodVersionError,
    MessageError,
    MessageTimeoutError,
    NameRefusedError,
    NotBuiltYetError,
    OtherProductError,
    OutOfSharedMemoryError,
    RanksDisagreeError,
    RanksError,
    SegmentError,
    TableUseError,
    UntrainedTableError,
)
from ascpipe.errors.workers import (
    CrashLoopError,
    DiskFullError,
    DiskSilentError,
    DiskWorkerDiedError,
    KeyWorkerDiedError,
    RowUnreadableError,
    TableWorkerDiedError,
    WorkerError,
)

__all__ = [
    "AlreadyRunsError",
    "AscpipeError",
    "BusyError",
    "ColumnError",
    "CombinerError",
    "ConfigError",
    "ConfigFileError",
    "ConnectionClosedError",
    "CrashLoopError",
    "DaemonError",
    "DaemonStoppedError",
    "DirectoryFullError",
    "DiskFullError",
    "DiskSilentError",
    "DiskWorkerDiedError",
    "EndpointTooLongError",
    "HorovodMissingError",
    "HorovodVersionError",
    "KeyWorkerDiedError",
    "MessageError",
    "MessageTimeoutError",
    "MetricsError",
    "MetricsMissingError",
    "NameRefusedError",
    "NoAnswerError",
    "NotBuiltYetError",
    "NotRunningError",
    "NotStartedError",
    "OtherProductError",
    "OutOfSharedMemoryError",
    "PeerRefusedError",
    "RanksDisagreeError",
    "RanksError",
    "RemoteError",
    "RowFileError",
    "RowUnreadableError",
    "RunDirError",
    "SegmentError",
    "SupervisorGoneError",
    "TableUseError",
    "TableWorkerDiedError",
    "UntrainedTableError",
    "VersionError",
    "WorkerError",
    "WrongStateError",
    "number_of",
    "received",
]


def _subclasses(base: Type[AscpipeError]) -> Iterator[Type[AscpipeError]]:
    yield base
    for child in base.__subclasses__():
        yield from _subclasses(child)


def received(code: str, text: str) -> AscpipeError:
    """Make the error of a message: class by ``code``, text as received, other attributes None."""
    classes: Dict[str, Type[AscpipeError]] = {}
    for kind in _subclasses(AscpipeError):
        classes.setdefault(kind.code, kind)  # a subclass may have the code of its base
    kind = classes.get(code, RemoteError)
    error = kind(*[None] * len(kind.fields))
    error._received = text
    error.code = code
    return error


def number_of(code: str) -> int:
    """Return ``122`` of ``"E122"``: the value of the session segment's field `failed`."""
    return int(code[1:])
