"""Structs with which Python passes many arguments to a C++ function.

C++ has the same structs in ``calls.gen.h``. Pointers are valid only during the call, unless a struct says otherwise.
"""
import ctypes


class TableArguments(ctypes.Structure):
    """Arguments of ``asc_pipeline_add_table``: a table."""

    _fields_ = (
        ("number", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("dim", ctypes.c_int64),
        ("device_rows", ctypes.c_int64),
        ("home_rows", ctypes.c_int64),
        ("row_floats", ctypes.c_int64),
        ("padding_count", ctypes.c_int64),
        ("padding_keys", ctypes.POINTER(ctypes.c_int64)),  # int64[padding_count]
        ("seed", ctypes.c_uint64),
        ("initial_kind", ctypes.c_int),  # see ascpipe/layout/initial_kinds.py
        ("a", ctypes.c_double),
        ("b", ctypes.c_double),
        ("scale", ctypes.c_double),
        ("averages", ctypes.c_int),  # 1 = gradients are divided by the number of ranks
        ("fd", ctypes.c_int),  # descriptor of the segment, owned by the caller
        ("bytes", ctypes.c_int64),
        ("directories", ctypes.c_char_p),  # directories of row files, as "/a, /b"; null if no rows are on disk
    )


class DiskBatch(ctypes.Structure):
    """Argument of ``asc_disk_submit``: rows to read or write. The arrays must stay valid until all rows have been read
    or written.

    A result is 0, an errno, or the content of the slot (``Damage`` of ``tfops/src/disk/row_format.h``).
    """

    _fields_ = (
        ("count", ctypes.c_int64),
        ("slots", ctypes.POINTER(ctypes.c_int64)),  # int64[count]: disk slots
        ("keys", ctypes.POINTER(ctypes.c_int64)),  # int64[count]
        ("generations", ctypes.POINTER(ctypes.c_uint32)),  # uint32[count]
        ("rows", ctypes.POINTER(ctypes.c_void_p)),  # address[count]: destination or source of each row
        ("alone", ctypes.POINTER(ctypes.c_uint8)),  # uint8[count]: 1 = no other row of its block is in use; or null
        ("results", ctypes.POINTER(ctypes.c_int32)),  # int32[count]: filled
        ("requests", ctypes.POINTER(ctypes.c_void_p)),  # address[count]: REQUEST that receives each result; or null
        ("bell", ctypes.c_void_p),  # BELL to ring when some rows have finished; or null
    )


class DiskFile(ctypes.Structure):
    """Result of ``asc_disk_describe``: the properties of a row file."""

    _fields_ = (
        ("fd", ctypes.c_int),  # owned by the engine
        ("is_direct", ctypes.c_int),  # 1 = direct I/O, without the page cache
        ("file_system", ctypes.c_int),  # FileSystemKind of tfops/src/disk/file_system.h
        ("file_system_name", ctypes.c_char_p),
        ("blocks", ctypes.c_int64),
        ("block_bytes", ctypes.c_int64),
        ("slots_per_block", ctypes.c_int64),
    )


class DiskFigures(ctypes.Structure):
    """Result of ``asc_disk_figures``: statistics of a disk since its first file was opened."""

    _fields_ = (
        ("queued", ctypes.c_int64),  # operations that no thread has started
        ("under_way", ctypes.c_int64),
        ("deepest", ctypes.c_int64),  # maximum of ``under_way``
        ("delayed", ctypes.c_int64),  # operations that waited for another operation on their block
        ("reads", ctypes.c_int64),
        ("writes", ctypes.c_int64),
        ("read_bytes", ctypes.c_int64),
        ("written_bytes", ctypes.c_int64),
        ("rows_read", ctypes.c_int64),
        ("rows_written", ctypes.c_int64),
        ("rows_failed", ctypes.c_int64),  # rows that failed because of disk errors
        ("rows_damaged", ctypes.c_int64),
        ("damaged_neighbours", ctypes.c_int64),  # torn slots in blocks that were read before a write
        ("read_p50_us", ctypes.c_int64),
        ("read_p99_us", ctypes.c_int64),
        ("write_p50_us", ctypes.c_int64),
        ("write_p99_us", ctypes.c_int64),
    )


class BatchPlanArguments(ctypes.Structure):
    """Argument of ``asc_data_plan_move``: how records are divided into batches (``tfops/src/input/batch_plan.h``)."""

    _fields_ = (
        ("records", ctypes.c_int64),  # number of records of all files
        ("seed", ctypes.c_uint64),  # seed of the shuffle
        ("epochs", ctypes.c_int64),  # -1 = endless
        ("batch_size", ctypes.c_int64),  # records per batch of one rank
        ("ranks", ctypes.c_int64),
        ("shuffles", ctypes.c_int),  # 0 = records in the order of the files
        ("drop_remainder", ctypes.c_int),  # 1 = an epoch has only full batches
        ("window", ctypes.c_int64),  # number of consecutive records that are shuffled; 0 = all
    )


class FeatureFacts(ctypes.Structure):
    """Result of ``asc_data_schema_features``: type and value counts of one feature in a schema."""

    _fields_ = (
        ("name", ctypes.c_void_p),  # UTF-8 without a final NUL; owned by the schema
        ("name_bytes", ctypes.c_int64),
        ("type", ctypes.c_int),  # field number of the list in tf.train.Feature; 0 = no record has a list
        ("records", ctypes.c_int64),  # number of records that have the feature
        ("least", ctypes.c_int64),  # minimum number of values in these records
        ("most", ctypes.c_int64),  # maximum number of values in these records
        ("first", ctypes.c_int64),  # first record with this type
        ("other", ctypes.c_int64),  # first record with another type, or -1
    )


class RecordFormat(ctypes.Structure):
    """Format that defines how a file is divided into records (``tfops/src/input/record_reader.h``)."""

    _fields_ = (
        ("kind", ctypes.c_int),  # 0 = TFRecord; 1 = text, to which the other fields apply; 2 = Parquet
        ("delimiter", ctypes.c_int),  # byte between two fields
        ("use_quotes", ctypes.c_int),  # 1 = a field that begins with a quote may contain delimiters and line ends
        ("has_header", ctypes.c_int),  # 1 = the first record is skipped
    )


class CsvColumnArguments(ctypes.Structure):
    """Argument of ``asc_data_csv_new``: a column that the new parser must read from text records."""

    _fields_ = (
        ("field", ctypes.c_int64),  # number of the field in the record, counted from 0
        ("type", ctypes.c_int),  # CsvType of tfops/src/input/csv_parser.h
        ("has_default", ctypes.c_int),  # 0 = a record without a value is invalid
        ("whole", ctypes.c_int64),  # default value of an integer type
        ("real", ctypes.c_double),  # default value of a floating-point type
        ("text", ctypes.c_char_p),  # default value of a string, with text_bytes bytes; null for other types
        ("text_bytes", ctypes.c_int64),
    )


class ExampleColumnArguments(ctypes.Structure):
    """Argument of ``asc_data_examples``: the values of a feature in several records."""

    _fields_ = (
        ("name", ctypes.c_char_p),  # name of the feature, with name_bytes bytes
        ("name_bytes", ctypes.c_int64),
        ("type", ctypes.c_int),  # CsvType of tfops/src/input/csv_parser.h
        ("values", ctypes.c_void_p),  # array of that type with one value per record; strings are ByteRange
        ("has_value", ctypes.POINTER(ctypes.c_uint8)),  # uint8 per record: 0 = there is no such feature; or null
    )


class RowGroupArguments(ctypes.Structure):
    """Argument of the function that decodes a row group (``tfops/src/input/row_group_loader.h``)."""

    _fields_ = (
        ("path", ctypes.c_char_p),
        ("bytes", ctypes.c_int64),  # size of the file when its footer was read
        ("modified_ns", ctypes.c_int64),  # modification time of the file at this time
        ("group", ctypes.c_int64),  # number of the row group in the file
        ("rows", ctypes.c_int64),  # number of rows of the row group
        ("columns_count", ctypes.c_int64),
        ("columns", ctypes.POINTER(ctypes.c_char_p)),  # names of the columns
        ("uses_threads", ctypes.c_int),  # 1 = several threads decode the columns
        ("array", ctypes.c_void_p),  # ArrowArray: filled
        ("schema", ctypes.c_void_p),  # ArrowSchema: filled
        ("text", ctypes.c_void_p),  # char[text_bytes]: filled with the text of an error
        ("text_bytes", ctypes.c_int64),
    )


STRUCTURES = (TableArguments, DiskBatch, DiskFile, DiskFigures, BatchPlanArguments, FeatureFacts, RecordFormat,
              CsvColumnArguments, ExampleColumnArguments, RowGroupArguments)
