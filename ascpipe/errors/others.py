"""Errors of settings, messages, shared memory and ranks."""
from typing import ClassVar, Tuple

from ascpipe.errors.base import AscpipeError, shown

_GIB = float(1 << 30)


class ConfigError(AscpipeError):
    """A setting has an invalid value.

    Attributes:
        setting: name of the setting.
        origin: source of the value (file, environment variable, option).
        value: the given value.
        reason: description of the allowed values.
    """

    code = "E402"
    fields: ClassVar[Tuple[str, ...]] = ("setting", "origin", "value", "reason")

    def _text(self) -> str:
        return "Setting {} from {} has the value {}: {}".format(
            shown(self.setting), self.origin, shown(self.value), self.reason)


class ConfigFileError(ConfigError):
    """The settings file cannot be read. ``setting`` is empty."""

    code = "E403"

    def _text(self) -> str:
        return "Settings cannot be read from {}: {}".format(self.origin, self.reason)


class NameRefusedError(AscpipeError):
    """The name of a daemon is not allowed."""

    code = "E215"
    fields: ClassVar[Tuple[str, ...]] = ("name",)
    template = ("{name!r} cannot name a daemon: use 1 to 48 of the characters A-Z a-z 0-9 _ . -, "
                "not starting with a dot or a dash")


class OtherProductError(AscpipeError, ImportError):
    """A package ``mx_rec`` that is not part of ascpipe is also installed. Nothing was run.

    Attributes:
        found: distribution of the other package, or its path if it belongs to no distribution.
        folder: folder of the package.
    """

    code = "E227"
    fields: ClassVar[Tuple[str, ...]] = ("found", "folder")
    template = ("Two packages mx_rec are installed: ascpipe-mx-rec, and that of {found} in {folder}. A program "
                "can import only one. Nothing was run, and neither was changed. Keep one: pip uninstall "
                "ascpipe-mx-rec, or remove the other, or use separate environments (docs/how-to/install.md)")


class MessageError(AscpipeError):
    """A control message does not have the required fields and types. The message was dropped."""

    code = "E230"
    fields: ClassVar[Tuple[str, ...]] = ("reason",)
    template = "A message was refused: {reason}"


class ConnectionClosedError(MessageError):
    """The peer process has closed the control connection."""

    code = "E231"
    fields: ClassVar[Tuple[str, ...]] = ("peer",)
    template = "{peer} closed the connection"


class MessageTimeoutError(MessageError):
    """A control message was not completely sent or received before the timeout.

    If no byte of an expected message had arrived, nothing was read and the caller can receive again. Otherwise, the
    stream is unusable.
    """

    code = "E232"
    fields: ClassVar[Tuple[str, ...]] = ("peer", "reason")
    template = "{peer} {reason}"


class ProgramPlanError(AscpipeError):
    """`ascpipe plan --program` ran a program that did not start a pipeline."""

    code = "E233"
    fields: ClassVar[Tuple[str, ...]] = ("program", "reason")
    template = ("The tables of {program} are not known: {reason}. No step was trained. Check that "
                "`ascpipe run {program}` trains")


class RecordError(AscpipeError):
    """There is no record of a run, or the record cannot be used for a report."""

    code = "E234"
    fields: ClassVar[Tuple[str, ...]] = ("record", "reason")
    template = ("There is no report of the run {record}: {reason}. Nothing was written. `ascpipe report` lists the "
                "runs")


class SegmentError(AscpipeError):
    """Shared memory has invalid content. It was not mapped."""

    code = "E302"
    fields: ClassVar[Tuple[str, ...]] = ("what", "reason")
    template = "Shared memory {what} was refused: {reason}"


class OutOfSharedMemoryError(SegmentError):
    """There is too little memory. In most cases, a check raises this error before memory is allocated.

    Attributes:
        need_bytes: requested memory in bytes.
        have: string that lists the available memory under each limit.
    """

    code = "E401"
    fields: ClassVar[Tuple[str, ...]] = ("what", "need_bytes", "have")

    def _text(self) -> str:
        return ("Too little shared memory for {}: {:.2f} GiB ({} bytes) are needed, {}. Nothing was started. Use a "
                "smaller --ring-bytes (private daemon: ASCPIPE_RING_BYTES) or smaller tables, or raise the "
                "limit").format(self.what, self.need_bytes / _GIB, self.need_bytes, self.have)


class RanksError(AscpipeError):
    """Ranks cannot be started, or cannot connect to each other."""

    code = "E240"


class HorovodMissingError(RanksError):
    """Several ranks need Horovod, which cannot be imported.

    Attributes:
        reason: error message of the import.
    """

    code = "E241"
    fields: ClassVar[Tuple[str, ...]] = ("reason",)
    template = ('Several ranks need Horovod, which cannot be imported ({reason}). Install it with CPython '
                '3.7 and TensorFlow 1.15: `make ranks` in the tree of ascpipe, or pip install --no-build-isolation '
                '"ascpipe[ranks]"')


class HorovodVersionError(RanksError):
    """The version of Horovod is not supported. ascpipe calls internal C++ functions of Horovod, which may change in any
    version.
    """

    code = "E242"
    fields: ClassVar[Tuple[str, ...]] = ("found", "wanted")
    template = ('Horovod {found} is installed, but ascpipe supports only {wanted}. Install that version: '
                '`make ranks` in the tree of ascpipe, or pip install --no-build-isolation "ascpipe[ranks]"')


class RanksDisagreeError(RanksError):
    """Horovod and the launcher report different ranks for this process. Each argument is a string of the form "rank R
    of N".
    """

    code = "E243"
    fields: ClassVar[Tuple[str, ...]] = ("horovod", "launched")
    template = ("Horovod reports {horovod}, the launcher {launched}: call hvd.init() without arguments, and start all "
                "ranks with one launcher")


class OtherRankRowsError(RanksError):
    """A request of rank 0 to read or change rows failed on another rank.

    Attributes:
        what: the request of rank 0.
        cause: the other rank, and its error.
        state: state of the tables, and the recommended action.
    """

    code = "E244"
    fields: ClassVar[Tuple[str, ...]] = ("what", "cause", "state")
    template = "The {what} failed on {cause}. {state}"


class CombinerError(AscpipeError, ValueError):
    """Ids, weights or arguments of ``lookup_sparse`` cannot be combined. Nothing was added to the graph.

    Attributes:
        table: name of the table.
        reason: description of the error and the correct arguments.
    """

    code = "E250"
    fields: ClassVar[Tuple[str, ...]] = ("table", "reason")
    template = "lookup_sparse of table {table!r}: {reason}"


class ColumnError(AscpipeError, ValueError):
    """Tables do not support a feature column of the program, the variable of a feature column, or an optimizer. The
    graph is not usable.

    Attributes:
        column: name of the column, of its variable, or of the optimizer.
        reason: description of the error and the alternative.
    """

    code = "E251"
    fields: ClassVar[Tuple[str, ...]] = ("column", "reason")
    template = "tables for feature columns: {column!r}: {reason}"


class UntrainedTableError(AscpipeError, ValueError):
    """The loss depends on a table, but no optimizer updates the rows of the table. Nothing was trained.

    Attributes:
        table: name of the table.
        reason: description of the program's optimizers, and the recommended action.
    """

    code = "E252"
    fields: ClassVar[Tuple[str, ...]] = ("table", "reason")
    template = ("Table {table!r} is looked up for training, but no optimizer of this graph updates it, so its rows "
                "would never change. {reason}")


class TableUseError(AscpipeError, ValueError):
    """A program uses a table, or its variable or gradient, like a TensorFlow variable. Nothing was trained.

    Attributes:
        table: name of the table.
        reason: description of the wrong use, the consequence and the alternative.
    """

    code = "E253"
    fields: ClassVar[Tuple[str, ...]] = ("table", "reason")
    template = "Table {table!r} is not a TensorFlow variable: {reason}"


class NotBuiltYetError(AscpipeError, NotImplementedError):
    """An argument or call is not implemented yet. ascpipe never ignores unsupported arguments.

    Attributes:
        what: the argument or call, with its value.
        instead: recommended action.
    """

    code = "E600"
    fields: ClassVar[Tuple[str, ...]] = ("what", "instead")
    template = "{what} is not supported by ascpipe yet: {instead}"
