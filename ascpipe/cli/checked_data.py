"""Functions of ``ascpipe data`` that read the first records, check files, and show a progress bar on a terminal."""
import contextlib
import os
import sys
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ascpipe.data import example
from ascpipe.data.files import DataFile
from ascpipe.data.records import Record, RecordFile
from ascpipe.data.schema import Feature, FileSchema, merged, spec
from ascpipe.errors import DamagedRecordsError, DataError, NotAnExampleError

_STEP_BYTES = 64 << 20
_SHOWN_PROBLEMS = 10  # maximum number per file

Shown = Tuple[str, Record, Dict[str, example.FeatureValues], Optional[str]]  #: path, record, features, problem


class CheckedFile(NamedTuple):
    """Result of checking one file.

    Attributes:
        path, compression: see ``DataFile``.
        records: number of records that are not damaged.
        bytes: size of the file.
        features: features of these records.
        examples: number of these records that are a tf.train.Example.
        not_example: number of the first record that is not a tf.train.Example, or None.
        problems: the first ten errors.
        more_problems: number of further errors.
    """

    path: str
    compression: str
    records: int
    bytes: int
    features: List[Feature]
    examples: int
    not_example: Optional[int]
    problems: List[DataError]
    more_problems: int


def checked_file(file: DataFile, progress: Optional[Callable[[int], None]]) -> CheckedFile:
    """Read a file, and check all its records. Records with damaged data are skipped.

    Args:
        file: a TFRecord file.
        progress: function that receives the number of content bytes read so far.
    """
    schema = FileSchema()
    problems: List[DataError] = []
    with RecordFile(file.path, file.compression) as opened:
        try:
            _check_all(opened, schema, problems, progress)
        except DataError as error:  # the rest of the file cannot be read
            if not problems or str(problems[-1]) != str(error):
                problems.append(error)
        return CheckedFile(file.path, file.compression, opened.checked, _size(file.path), schema.features(),
                           schema.records, opened.not_example, problems[:_SHOWN_PROBLEMS],
                           max(len(problems) - _SHOWN_PROBLEMS, 0))


def _check_all(opened: RecordFile, schema: FileSchema, problems: List[DataError],
               progress: Optional[Callable[[int], None]]) -> None:
    """Check the records of a file. Errors of records that can be skipped are appended to ``problems``."""
    is_end = False
    while not is_end:
        try:
            _, position, is_end = opened.check(schema, _STEP_BYTES)
            if progress is not None:
                progress(position)
        except DamagedRecordsError as error:
            problems.append(error)
            is_end = opened.skip() is None


def first_records(files: Sequence[DataFile], count: int) -> Tuple[List[Shown], List[Feature], int]:
    """Read the first ``count`` records in total, file by file.

    Returns:
        The records, their features, and the number of records that are a tf.train.Example.

    Raises:
        DataError: a record cannot be read.
    """
    shown: List[Shown] = []
    features = []
    examples = 0
    for file in files:
        if len(shown) == count:
            break
        schema = FileSchema()
        limit = count - len(shown)
        with RecordFile(file.path, file.compression) as opened:
            opened.check(schema, 2 ** 62, limit)
        features.append((file.path, schema.features()))
        examples += schema.records
        with RecordFile(file.path, file.compression) as opened:
            for record, _ in zip(opened, range(limit)):
                try:
                    shown.append((file.path, record, example.parse(record.data), None))
                except NotAnExampleError as error:
                    shown.append((file.path, record, {}, str(error)))
    return shown, merged(features)[0], examples


def spec_dict(features: Sequence[Feature], records: int) -> Dict[str, Any]:
    """Return the features for JSON."""
    return {one.name: {"type": one.type, "records": one.records, "least": one.least, "most": one.most,
                       "spec": spec(one, records)} for one in features}


@contextlib.contextmanager
def progress_of(file: DataFile) -> Iterator[Optional[Callable[[int], None]]]:
    """Context manager that shows a progress bar if stderr is a terminal.

    Yields:
        Function that receives the number of content bytes read so far, or None without a terminal.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        total = None if file.compression else float(_size(file.path))  # the size of compressed content is unknown
        task = bars.add_task(os.path.basename(file.path), total=total or 0)
        yield lambda position: bars.update(task, completed=position, total=float(max(total or 0, position)))


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
