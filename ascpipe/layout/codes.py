"""Error codes that C++ raises.

An op or a call fails with a status of TensorFlow. The message of the status begins with the code. C++ has the codes as
constants in ``error_codes.gen.h``. All other codes are in ``ascpipe/errors``.
"""
from typing import NamedTuple, Tuple


class NativeError(NamedTuple):
    """Error code of C++.

    Attributes:
        code: first word of the error message.
        status: TensorFlow's code, named as in ``tf.errors``.
        what: cause of the error.
    """

    code: str
    status: str
    what: str


SUPERVISOR_GONE = NativeError("E110", "FAILED_PRECONDITION", "the daemon died")
WAITED_LONG = NativeError("E123", "INTERNAL", "a step waited for longer than wait_timeout_s")
FORKED = NativeError("E204", "FAILED_PRECONDITION", "a forked child of the trainer uses its pipeline")
NOT_STARTED = NativeError("E205", "FAILED_PRECONDITION", "the pipeline of a graph was not started, or was stopped")
OTHER_SESSION = NativeError("E206", "FAILED_PRECONDITION", "a session trains a table that a later session trains")
DAMAGED_TABLE = NativeError("E301", "DATA_LOSS", "a plan, an entry or a row number in shared memory is invalid")
RANKS_LATE = NativeError("E310", "FAILED_PRECONDITION", "other ranks did not join an exchange in time")
RANKS_POISONED = NativeError("E311", "DATA_LOSS", "a step of several ranks failed after some had updated their tables")
RANKS_ENDED = NativeError("E312", "FAILED_PRECONDITION", "the exchange engine ended because a rank exited")
RANKS_DIFFER = NativeError("E313", "FAILED_PRECONDITION", "ranks have different programs, tables or steps")
RANKS_APART = NativeError(
    "E314", "FAILED_PRECONDITION", "a step of one rank failed, or ranks executed different steps")
TABLE_FULL = NativeError("E320", "RESOURCE_EXHAUSTED", "a table has no row for keys of a batch")
NO_MEMORY_LEFT = NativeError("E321", "RESOURCE_EXHAUSTED", "there is no shared memory left for rows of a table")
OUT_OF_TURN = NativeError("E322", "INVALID_ARGUMENT", "a batch was trained or read twice, or after a later one")
BATCH_TOO_LARGE = NativeError("E323", "RESOURCE_EXHAUSTED", "a batch is larger than its ring")
BAD_BAGS = NativeError("E324", "INVALID_ARGUMENT", "bags of ids do not match their weights")
RECORD_DAMAGED = NativeError("E330", "DATA_LOSS", "a file of training data is damaged")
DATA_CHANGED = NativeError("E331", "FAILED_PRECONDITION", "a file of training data changed while it was read")
DATA_UNREADABLE = NativeError("E332", "FAILED_PRECONDITION", "a file of training data cannot be opened or read")
INDEX_UNUSABLE = NativeError("E333", "DATA_LOSS", "an index of records is damaged, or belongs to other data")
BAD_BATCH_PLAN = NativeError("E334", "INVALID_ARGUMENT", "records cannot be divided into batches as requested")
INDEX_NOT_WRITTEN = NativeError("E335", "FAILED_PRECONDITION", "an index of records cannot be written")
RECORD_UNFIT = NativeError("E337", "INVALID_ARGUMENT", "a record does not have the features that a dataset reads")
PARQUET_MISSING = NativeError("E340", "FAILED_PRECONDITION", "pyarrow is not installed, so Parquet cannot be read")
UPDATE_DAMAGED = NativeError("E341", "DATA_LOSS", "an update of served rows is damaged, or cannot be read")
UPDATE_OUT_OF_ORDER = NativeError(
    "E342", "FAILED_PRECONDITION", "an update of served rows does not follow the update before it")

ROW_UNREADABLE = NativeError("E421", "DATA_LOSS", "a row on disk cannot be read")

NATIVE_ERRORS: Tuple[NativeError, ...] = (
    SUPERVISOR_GONE, WAITED_LONG, FORKED, NOT_STARTED, OTHER_SESSION, DAMAGED_TABLE, RANKS_LATE, RANKS_POISONED,
    RANKS_ENDED, RANKS_DIFFER, RANKS_APART, TABLE_FULL, NO_MEMORY_LEFT, OUT_OF_TURN, BATCH_TOO_LARGE, BAD_BAGS,
    RECORD_DAMAGED, DATA_CHANGED, DATA_UNREADABLE, INDEX_UNUSABLE, BAD_BATCH_PLAN, INDEX_NOT_WRITTEN, RECORD_UNFIT,
    PARQUET_MISSING, UPDATE_DAMAGED, UPDATE_OUT_OF_ORDER, ROW_UNREADABLE)

#: message of E110 in Python and C++
SUPERVISOR_GONE_TEXT = ("The ascpipe supervisor (pid {pid}) died. No batch was half-applied. Training since the last "
                        "checkpoint is lost. Restart the program")
