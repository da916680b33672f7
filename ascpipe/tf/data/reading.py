"""``asc.data.read``, which returns a dataset of batches that are read from files."""
import hashlib
import itertools
import json
import logging
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import tensorflow as tf

from ascpipe import ranks
from ascpipe.data import criteo, formats
from ascpipe.data import files as data_files
from ascpipe.data.fields import header_of
from ascpipe.data.files import DataFile
from ascpipe.data.formats import Format
from ascpipe.data.index import indexed
from ascpipe.errors import ArgumentError, DataFilesError
from ascpipe.tf import internals
from ascpipe.tf.data.features import RecordFeatures, record_features
from ascpipe.tf.data.parquet import parquet_features
from ascpipe.tf.data.text import criteo_features, text_features
from ascpipe.tf.data.transform import Function, Transform, first_batch
from ascpipe.tf.running import native
from ascpipe.tf.running.process import Process
from ascpipe.tf.validation import Choice, Instance, Integer, ListOf, Text, check_all

_log = logging.getLogger(__name__)

_ENDLESS = -1
_ERROR = "error"  #: values of on_bad_record
_SKIP = "skip"
CRITEO = "criteo"  #: value of format, in addition to the formats of files
_FORMATS = (data_files.TFRECORD, data_files.CSV, data_files.TSV, data_files.PARQUET, CRITEO)

#: Numbers of datasets. They differ from the numbers in graphs that other processes have saved (import_meta_graph).
_sources = itertools.count(int.from_bytes(os.urandom(7), "big") + 1)


@tf.autograph.experimental.do_not_convert
def read(files: Union[data_files.Path, Sequence[data_files.Path]], features: Optional[Mapping[str, Any]],
         batch_size: int, *, format: Optional[str] = None,  # noqa: A002  # the name that users expect
         columns: Optional[Sequence[str]] = None, shuffle: bool = False, seed: Optional[int] = None,
         epochs: Optional[int] = 1, drop_remainder: bool = False, readers: int = 1, read_ahead: int = 4,
         on_bad_record: str = _ERROR, transform: Optional[Union[str, Function]] = None) -> Any:
    """Return a ``tf.data.Dataset`` that reads batches from TFRecord, CSV, TSV or Parquet files.

    Each element is a dict with the features of one batch. For TFRecord and Parquet files, the features have the same
    form as the result of ``tf.io.parse_example``. For text files, they have the same form as the result of
    ``tf.io.decode_csv``. Threads of this process read the records, verify their checksums and parse them, ahead of the
    program.

    The order of the records is a function of the seed, the epoch and the number of ranks, so that every run reads the
    same batches. With several ranks, each rank reads its part of each global batch. A batch contains records of only
    one epoch. Each iterator of the dataset is a *pass* over all epochs; later passes are shuffled differently.

    Checkpoints contain the position of the dataset. If a checkpoint is restored before the first batch is read, the
    dataset continues after the last batch that was trained. If the checkpoint was saved at the end of the last epoch,
    or belongs to other files or another seed, the dataset starts at the first record.

    Args:
        files: path or pattern of files, or a sequence of them. The files of a pattern are sorted by name. Files may be
            compressed (GZIP, ZLIB). A missing index is built in the directory of the file. Parquet files need no index.
        features: name -> ``tf.io.FixedLenFeature``, ``VarLenFeature``, ``FixedLenSequenceFeature`` or
            ``SparseFeature``, or ``asc.data.hashed()``. In text files, each feature must be ``FixedLenFeature([],
            dtype)`` or hashed, and an empty field has the default value. In Parquet files, the names are column names,
            and ``FixedLenSequenceFeature`` is not supported. None reads all fields of the Criteo logs.
        batch_size: number of records in a batch of one rank.
        format: "tfrecord", "csv", "tsv", "parquet", or "criteo" for the tab-separated Criteo logs (label, I1 to I13 and
            C1 to C26; hexadecimal numbers are converted to int64, and missing values are 0). By default, the format is
            detected.
        columns: names of all fields, for text files without a header. By default, the first record of each file is the
            header.
        shuffle: whether the records of each epoch are permuted. The permutation covers all records, because there is no
            shuffle buffer. If a file is compressed, records are permuted only within windows of about 32 MiB. For
            Parquet files, the row groups are permuted, and also the rows of each row group.
        seed: seed of the permutations. The default is the seed of the graph (``tf.set_random_seed``), or 0 if it is not
            set.
        epochs: number of epochs, or None for an endless dataset.
        drop_remainder: whether an epoch has only full batches. If True, the batch dimension of the features is known.
            If False, the last batches of an epoch may be smaller.
        readers: number of threads that read batches. If a file is compressed, only one thread reads it. For Parquet
            files with more than 1 reader, pyarrow decodes the columns of a row group in several threads.
        read_ahead: maximum number of batches in memory that are read ahead of the program.
        on_bad_record: "error", or "skip" to skip records that are damaged or do not have the features. The number of
            skipped records is logged. A batch with skipped records is smaller. A batch without any valid record is an
            error.
        transform: function that is called with each batch, or the text "module:function". It takes and returns a dict
            of numpy arrays, and of ``tf.compat.v1.SparseTensorValue`` for sparse features. ``read`` reads the first
            batch and calls the function with it, to find the names, types and shapes of the results. Up to ``readers``
            threads call the function at the same time.

    Raises:
        ArgumentError, FeatureError: an argument is not allowed.
        DataFilesError: a path does not exist, is a directory or remote, or a file has another format.
        DamagedRecordsError, DataUnreadableError, IndexNotWrittenError: a file cannot be indexed.
        TransformError: the function fails for the first batch.
        ParquetMissingError: the files are Parquet files, and pyarrow is not installed.
        tf.errors.OpError: errors of the dataset, when a batch is read. The messages have a code, E330 to E340.
    """
    check_all({"batch_size": Integer(1), "shuffle": Instance(bool),
               "seed": Integer(-2 ** 63, 2 ** 63 - 1, optional=True),
               "epochs": Integer(1, 2 ** 60, optional=True), "drop_remainder": Instance(bool),
               "readers": Integer(1, 64), "read_ahead": Integer(1, 10000), "on_bad_record": Choice(_ERROR, _SKIP),
               "format": Choice(*_FORMATS, optional=True), "columns": ListOf(Text(1, 10 ** 6), optional=True)},
              locals())
    found = data_files.readable(files)
    described, record_format = _described(found, features, format, columns)
    indexes = _indexes(found, record_format)
    rank, size = _place()
    used_seed = _seed_of_graph() if seed is None else seed
    skips = on_bad_record == _SKIP
    batch = batch_size if drop_remainder and not skips else None
    specs = [_with_batch(spec, batch) if number < len(described.attributes["dense_keys"]) else spec
             for number, spec in enumerate(described.specs)]
    attributes = dict(
        files=[os.fsencode(one.path) for one in found], indexes=[os.fsencode(index) for index in indexes],
        batch_size=batch_size, epochs=_ENDLESS if epochs is None else epochs, seed=used_seed, shuffles=shuffle,
        drop_remainder=drop_remainder, rank=rank, ranks=size, readers=readers, read_ahead=read_ahead,
        skips_bad_records=skips, source=next(_sources), data=_identity(found, used_seed if shuffle else None),
        output_types=[spec.dtype for spec in specs], output_shapes=[spec.shape for spec in specs],
        **described.attributes)
    if transform is None:
        return _dataset(attributes, described, specs)
    # the source is negative if the batch is not counted
    first = {**attributes, "source": -next(_sources), "readers": 1, "read_ahead": 1}
    chosen = Transform(transform, _named(found), lambda: first_batch(lambda: _dataset(first, described, specs)))
    return chosen.applied(_dataset(attributes, described, specs), readers, batch)


def _dataset(attributes: Dict[str, Any], described: RecordFeatures, specs: Sequence[tf.TensorSpec]) -> Any:
    with tf.device("/device:CPU:0"):
        variant = native.ops().asc_read_dataset(**attributes)
    if described.names is not None:
        return internals.dataset_of(variant, dict(zip(described.names, specs)))
    return internals.dataset_of(variant, tuple(specs)).map(described.composed)


def _named(found: Sequence[DataFile]) -> str:
    """Return a description of files for error messages."""
    more = len(found) - 1
    return found[0].path + (" and {} more file{}".format(more, "s" if more > 1 else "") if more else "")


def _described(found: Sequence[DataFile], features: Optional[Mapping[str, Any]], kind: Optional[str],
               columns: Optional[Sequence[str]]) -> Tuple[RecordFeatures, Format]:
    """Return the features and the format of the files."""
    kinds = {one.format for one in found} if kind is None else {kind}
    if len(kinds) > 1:
        raise DataFilesError("The files of asc.data.read have different formats: {}. Nothing was read. Read each "
                             "format into a dataset of its own".format(", ".join(sorted(kinds))))
    if columns is not None and not kinds <= {data_files.CSV, data_files.TSV}:
        raise ArgumentError("Argument columns of asc.data.read has the names of the fields of CSV and TSV files, but "
                            "the format is {}. Nothing was read. Omit columns".format(kinds.pop()))
    if kinds == {CRITEO}:
        return criteo_features(features), criteo.FORMAT
    if kinds == {data_files.TFRECORD}:
        return record_features(features), formats.TFRECORD
    if kinds == {data_files.PARQUET}:
        return parquet_features(features, [one.path for one in found]), formats.PARQUET
    record_format = data_files.record_format_of(kinds.pop(), header=columns is None)
    names = list(columns) if columns is not None else header_of(found[0].path, record_format)
    for one in found[1:] if columns is None else ():
        if header_of(one.path, record_format) != names:
            raise DataFilesError("{} and {} have different names of fields in their first records. Nothing was read. "
                                 "Read each of them into a dataset of its own, or pass columns=[...] if the files have "
                                 "no names".format(found[0].path, one.path))
    return text_features(features, names, record_format, found[0].path), record_format


def _indexes(found: Sequence[DataFile], record_format: Format) -> List[str]:
    """Return the paths of the files' indexes, and build missing indexes. Parquet files need no index."""
    indexes = []
    for one in found if record_format != formats.PARQUET else ():
        opened, is_new = indexed(one.path, record_format=record_format)
        with opened:
            if is_new:
                _log.info("built the index of %s: %d records, %s", one.path, opened.records, opened.path)
            indexes.append(opened.path)
    return indexes


def _place() -> Tuple[int, int]:
    """Return the rank of this process and the number of ranks."""
    if Process.is_initialised():
        configuration = Process.current().configuration
        return configuration.rank_id, configuration.rank_size
    return (ranks.get_rank_id(), ranks.get_rank_size()) if ranks.launched() else (0, 1)


def _seed_of_graph() -> int:
    seed = tf.compat.v1.get_default_graph().seed
    return 0 if seed is None else int(seed)


def _with_batch(spec: tf.TensorSpec, batch: Optional[int]) -> tf.TensorSpec:
    return tf.TensorSpec(tf.TensorShape([batch]).concatenate(spec.shape[1:]), spec.dtype)


def _identity(found: Sequence[DataFile], seed: Optional[int]) -> str:
    """Return a value that identifies the records of a dataset and the order of the records.

    Files may be moved, but not renamed.
    """
    content: Dict[str, Any] = {"files": [[os.path.basename(one.path), os.path.getsize(one.path)] for one in found],
                               "seed": seed}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode("utf-8", "surrogateescape")).hexdigest()[:32]
