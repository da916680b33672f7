"""Exceptions of ascpipe.

::

    AscpipeError
    +-- ConfigError            E402  a setting has an invalid value
    |   `-- ConfigFileError    E403  the settings file cannot be read
    +-- NameRefusedError       E215  a name of a run is not allowed
    +-- DaemonError            E112  other errors between a trainer, the CLI and a daemon
    |   +-- NotRunningError    E212  no daemon of that name is running
    |   +-- AlreadyRunsError   E211  a daemon of that name is already running
    |   +-- BusyError          E210  the daemon serves another trainer
    |   +-- RunDirError        E214  a run or kernel directory is not safe, or cannot be used
    |   +-- DirectoryFullError E223  the file system of a run or kernel directory is full
    |   +-- EndpointTooLongError E216 a unix socket path is limited to 107 bytes
    |   +-- NoAnswerError      E218  the daemon did not answer in time
    |   +-- NotStartedError    E213  a daemon or its workers did not become ready
    |   +-- WrongStateError    E219  the daemon's state does not allow the request
    |   +-- PeerRefusedError   E217  the process is not the connected or registered trainer
    |   +-- VersionError       E220  trainer and daemon were built from different layouts
    |   +-- SupervisorGoneError E110 the daemon died
    |   +-- DaemonStoppedError E113  the daemon was stopped while a trainer used it
    |   +-- RowFileError       E420  row files cannot be created in a directory
    |   +-- MetricsError       E224  metrics are configured but cannot be exported
    |   |   `-- MetricsMissingError E225 the package for metrics is not installed
    |   +-- EvictionLogError   E228  the log of evicted keys cannot be written
    |   `-- DashboardError     E229  the dashboard cannot listen on its port
    +-- MessageError           E230  a control message does not match the schema
    |   +-- ConnectionClosedError E231 the peer has closed a socket
    |   `-- MessageTimeoutError E232 a message was not received or sent completely in time
    +-- ProgramPlanError       E233  a program did not start the pipeline that should be planned
    +-- RecordError            E234  a run has no record for a report
    +-- SegmentError           E302  shared memory has invalid content
    |   `-- OutOfSharedMemoryError E401 too little memory, detected at start
    +-- WorkerError            E120  a worker process exited
    |   +-- TableWorkerDiedError E122  a table worker exited other than by SIGKILL
    |   +-- KeyWorkerDiedError E130  a key worker exited other than by SIGKILL
    |   +-- DiskWorkerDiedError E132 the disk worker exited other than by SIGKILL
    |   +-- RowUnreadableError E422  a row that a step needs cannot be read from disk
    |   +-- DiskFullError      E423  rows must be written to disk, and no disk accepts them
    |   +-- DiskSilentError    E424  a disk with rows no longer responds
    |   `-- CrashLoopError     E140  a worker was restarted too often
    +-- OpsMissingError        E221  the ops are not built (ascpipe/tfops/load.py)
    +-- OpsMismatchError       E222  the ops are built for another TensorFlow or layout
    +-- SourcesMissingError    E226  an installed package has no sources to build the ops from
    +-- OtherProductError      E227  another product's mx_rec is also installed
    +-- RanksError             E240  ranks cannot be started, or cannot connect
    |   +-- HorovodMissingError E241 Horovod is needed for several ranks and is not installed
    |   +-- HorovodVersionError E242 the version of Horovod is not supported
    |   +-- RanksDisagreeError E243 Horovod and the launcher disagree about the rank
    |   `-- OtherRankRowsError E244 another rank cannot read or change rows
    +-- CombinerError          E250  ids, weights or arguments of a lookup cannot be combined
    +-- ColumnError            E251  tables do not support a feature column or optimizer
    +-- UntrainedTableError    E252  the loss depends on a table that no optimizer updates
    +-- TableUseError          E253  a table, its variable or gradient is used like a TensorFlow variable
    +-- UsageError             E259  other wrong calls; each is also a ValueError, RuntimeError or the like
    |   +-- ArgumentError      E260  an argument has a value or type that is not allowed
    |   +-- UnexpectedArgumentError E261 a function does not have an argument, or lacks a required one
    |   +-- InitializationError E262 init() was not called, or was called twice
    |   +-- CallOrderError     E263  a function was called too early or too late
    |   +-- MissingFromGraphError E264 the graph has no table, lookup, dataset or global step that a call needs
    |   +-- FeatureError       E265  a FeatureSpec does not match the batch, its table or another FeatureSpec
    |   +-- DatasetError       E266  a dataset or iterator cannot submit ids in the order of training
    |   +-- TableLookupError   E267  a lookup does not match its table, its graph or other lookups
    |   +-- TableError         E268  a table cannot be created, or differs between graphs
    |   +-- RowInitializerError E269 the initializer of a table cannot compute the values of new rows
    |   +-- OptimizerError     E270  an optimizer or its slot variables cannot train a table
    |   +-- GraphModificationError E271 the ops that compute ids cannot be moved into a dataset
    |   +-- SaverError         E272  a Saver, export or warm start has nothing to save or restore, or cannot do so
    |   +-- FilePathError      E273  a path cannot be opened
    |   +-- EnvironmentVariableError E274 an environment variable is missing or has a wrong value
    |   +-- ServingError       E275  a graph for serving uses tables in an unsupported way
    |   +-- UnsupportedTensorFlowError E276 TensorFlow lacks an attribute that ascpipe has to replace
    |   `-- DataFilesError   E277  a list of files of training data is not usable
    +-- DataError              E339  other errors of training data
    |   +-- DamagedRecordsError E330 a record or a compressed stream is damaged
    |   +-- DataChangedError   E331  a file changed while it was read
    |   +-- DataUnreadableError E332 a file cannot be opened or read, or zlib is missing
    |   +-- IndexUnusableError E333  an index is damaged, or belongs to other data
    |   +-- BatchPlanError     E334  records cannot be divided into batches as requested
    |   +-- IndexNotWrittenError E335 an index cannot be written
    |   +-- NotAnExampleError  E336  a record is not a tf.train.Example
    |   +-- TransformError     E338  the function that transforms batches failed
    |   `-- ParquetMissingError E340 pyarrow is not installed, so Parquet files cannot be read
    +-- NotBuiltYetError       E600  a feature of the reference product is not implemented
    +-- CheckpointError        E500  see ascpipe/checkpoint/errors.py for its subclasses
    `-- RemoteError            E199  this version does not know an error code of the daemon

Errors of a step are raised in C++ as TensorFlow errors, with a code in the message: E110 as above, E123 (a step waited
longer than ``wait_timeout_s``), E204 (a forked process uses the trainer's pipeline), E205 (the pipeline of a graph was
not started, or has ended), E206 (a session that began later trains the same table), E301 (damaged shared memory, or a
damaged message of another rank), E310, E311 and E312 (an exchange with other ranks failed), E313 (a property that must
be equal differs between ranks), E314 (a step of one rank failed, or ranks executed different steps), E320 (a table is
full), E321 (out of memory for a table), E322 (a batch is duplicate or too late), E323 (a batch is too large), E324
(``lookup_sparse`` received invalid ids or weights), E330 to E335 (training data, as in the classes above), E337 (a
record does not have the features that are read), E340 (pyarrow is not installed), E341 and E342 (updates of served
rows), E421 (rows on disk cannot be read or written); see ``ascpipe/layout/codes.py``.

Codes and attributes are stable; messages may change. An error that was received from another process (``received``) has
the class, code and message of that error. Its other attributes are ``None``.
"""
from typing import Dict, Iterator, Type

from ascpipe.errors.base import AscpipeError
from ascpipe.errors.daemon import (
    AlreadyRunsError,
    BusyError,
    DaemonError,
    DaemonStoppedError,
    DashboardError,
    DirectoryFullError,
    EndpointTooLongError,
    EvictionLogError,
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
from ascpipe.errors.data import (
    BatchPlanError,
    DamagedRecordsError,
    DataChangedError,
    DataError,
    DataUnreadableError,
    IndexNotWrittenError,
    IndexUnusableError,
    NotAnExampleError,
    ParquetMissingError,
    TransformError,
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
    OtherRankRowsError,
    OutOfSharedMemoryError,
    ProgramPlanError,
    RanksDisagreeError,
    RanksError,
    RecordError,
    SegmentError,
    TableUseError,
    UntrainedTableError,
)
from ascpipe.errors.usage import (
    ArgumentError,
    CallOrderError,
    DataFilesError,
    DatasetError,
    EnvironmentVariableError,
    FeatureError,
    FilePathError,
    GraphModificationError,
    InitializationError,
    MissingFromGraphError,
    OptimizerError,
    RowInitializerError,
    SaverError,
    ServingError,
    TableError,
    TableLookupError,
    UnexpectedArgumentError,
    UnsupportedTensorFlowError,
    UsageError,
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
    "ArgumentError",
    "AscpipeError",
    "BatchPlanError",
    "BusyError",
    "CallOrderError",
    "ColumnError",
    "CombinerError",
    "ConfigError",
    "ConfigFileError",
    "ConnectionClosedError",
    "CrashLoopError",
    "DaemonError",
    "DaemonStoppedError",
    "DamagedRecordsError",
    "DashboardError",
    "DataChangedError",
    "DataError",
    "DataFilesError",
    "DataUnreadableError",
    "DatasetError",
    "DirectoryFullError",
    "DiskFullError",
    "DiskSilentError",
    "DiskWorkerDiedError",
    "EndpointTooLongError",
    "EnvironmentVariableError",
    "EvictionLogError",
    "FeatureError",
    "FilePathError",
    "GraphModificationError",
    "HorovodMissingError",
    "HorovodVersionError",
    "IndexNotWrittenError",
    "IndexUnusableError",
    "InitializationError",
    "KeyWorkerDiedError",
    "MessageError",
    "MessageTimeoutError",
    "MetricsError",
    "MetricsMissingError",
    "MissingFromGraphError",
    "NameRefusedError",
    "NoAnswerError",
    "NotAnExampleError",
    "NotBuiltYetError",
    "NotRunningError",
    "NotStartedError",
    "OptimizerError",
    "OtherProductError",
    "OtherRankRowsError",
    "OutOfSharedMemoryError",
    "ParquetMissingError",
    "PeerRefusedError",
    "ProgramPlanError",
    "RanksDisagreeError",
    "RanksError",
    "RecordError",
    "RemoteError",
    "RowFileError",
    "RowInitializerError",
    "RowUnreadableError",
    "RunDirError",
    "SaverError",
    "SegmentError",
    "ServingError",
    "SupervisorGoneError",
    "TableError",
    "TableLookupError",
    "TableUseError",
    "TableWorkerDiedError",
    "TransformError",
    "UnexpectedArgumentError",
    "UnsupportedTensorFlowError",
    "UntrainedTableError",
    "UsageError",
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
    """Return the error that another process has sent as ``code`` and ``text``. ``code`` determines the class of the
    error.

    The attributes in ``fields`` are None.
    """
    classes: Dict[str, Type[AscpipeError]] = {}
    for kind in _subclasses(AscpipeError):
        classes.setdefault(kind.code, kind)  # if a subclass has the code of its base, the base is used
    kind = classes.get(code, RemoteError)
    error = kind(*[None] * len(kind.fields))
    error._received = text
    error.code = code
    return error


def number_of(code: str) -> int:
    """Return the number in an error code, for example 122 for ``"E122"``. The session segment stores this number in the
    field `failed`.
    """
    return int(code[1:])
