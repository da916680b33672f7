"""Explanations of the errors of training data and of the serving of rows."""
from typing import Dict

from ascpipe.errors.usage_explanations import NOTHING, Explanation

_STEP = "A step that needs the record trained nothing. Files are not changed."
_SERVES = "The server still serves the last good version."
_UPDATES = " (docs/how-to/serving_updates.md)."
_WHERE = " (docs/how-to/training_data.md)."

DATA: Dict[str, Explanation] = {
    "E330": Explanation(
        "A record or a compressed stream of a file is damaged or truncated, or the file is not a TFRecord file. In a "
        "text file, a quote is not closed, or a record is larger than 64 MiB or has wrong fields.", _STEP,
        "`ascpipe data check FILE` lists the damaged records. Write or copy the file again. In a text file, "
        "correct the record" + _WHERE),
    "E331": Explanation(
        "The size or modification time of a file changed while the file was read.", _STEP,
        "Read the file again. Replace files only by renaming complete files."),
    "E332": Explanation(
        "A file cannot be opened, read or decompressed.", _STEP,
        "Check the path, its permissions and the disk. For compressed files, install zlib (Debian, Ubuntu: "
        "zlib1g)."),
    "E333": Explanation(
        "An index of records is damaged, or was built from other data or for another format.", _STEP,
        "`ascpipe data index FILE` builds the index again" + _WHERE),
    "E334": Explanation(
        "Records cannot be divided into batches. For example, the batch size or the number of ranks or epochs is not "
        "allowed, an epoch has no full batch, or a saved position is not a record.", NOTHING,
        "Use a smaller batch, fewer ranks or more data."),
    "E335": Explanation(
        "An index of records can be written neither beside the data nor in the cache directory.", NOTHING,
        "Free some space, or set ASCPIPE_CACHE_DIR to a directory that you can write" + _WHERE),
    "E336": Explanation(
        "A record has the right checksum, but is not a tf.train.Example.", NOTHING,
        "Read the record with the program that wrote it. `ascpipe data` supports only tf.train.Example."),
    "E337": Explanation(
        "A record does not have the features that `asc.data.read` reads: a feature is missing, has another type, "
        "or has another number of values.", _STEP,
        "Correct the features. `ascpipe data head FILE` prints the specs of the file, and `ascpipe data check` "
        "finds features with different types. `on_bad_record=\"skip\"` skips records without the features" + _WHERE),
    "E338": Explanation(
        "The function `transform` of `asc.data.read` raised an error or returned a wrong value. The function must "
        "return a dict of arrays with one element per record, of the same types for every batch.", _STEP,
        "Correct the function" + _WHERE),
    "E339": Explanation(
        "Training data cannot be read or converted for a reason that has no other code.", _STEP,
        "The message has the reason and the file."),
    "E340": Explanation(
        "Parquet files cannot be read, because pyarrow is not installed.", NOTHING,
        "Run `pip install 'ascpipe[parquet]'`."),
    "E341": Explanation(
        "A server refused an update of served rows. The file is damaged or truncated or has other tables than the "
        "model, or its directory cannot be read.", _SERVES,
        "Copy the file again, or write a full update with `asc.export_delta(..., keep=0)`" +
        _UPDATES),
    "E342": Explanation(
        "A server refused an update of served rows, because an earlier update is missing.",
        _SERVES, "Copy all files of the directory, or write a full update"
        + _UPDATES),
}
