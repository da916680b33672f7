"""Datasets of ``bench/usual_session.py``: batches in memory, or batches of records or lines that are read from a file.

A file has an id for each table, ``FLOATS`` floats, which are the feature DENSE, and a label. The sources are:

- RECORDS: a TFRecord file of tf.Examples. Records are batched and then parsed.
- SINGLE_RECORDS: the same file. Records are parsed one by one, shuffled and batched.
- SHUFFLED_RECORDS: the same file. Records are shuffled, parsed one by one and batched.
- LINES: a text file. Lines are decoded one by one and batched.
- PARQUET: a Parquet file. A generator returns the batches of pyarrow as arrays.
"""
from typing import Any, Callable, Dict, Iterator

import numpy as np

from bench import record_files, usual_model
from bench.usual_model import DENSE, LABEL, LINES, MEMORY, PARQUET, RECORDS, SHUFFLED_RECORDS, SINGLE_RECORDS, Setting

CALLS = 2  #: parallel calls of a function that parses
FLOATS = 13
SHUFFLED = 10000  #: records in the buffer of a shuffle
GROUP_BATCHES = 10  #: batches in a row group of a Parquet file


def write_file(setting: Setting, path: str) -> None:
    """Write the file of the setting's source."""
    features, labels = usual_model.batches(setting)
    floats = np.random.RandomState(4).random_sample((labels.size, FLOATS)).astype(np.float32)
    if setting.source == LINES:
        record_files.write_lines(path, {
            LABEL: labels.ravel().astype(np.int64),
            **{"I{}".format(number + 1): column.round(4) for number, column in enumerate(floats.T.astype(np.float64))},
            **{name: ids.ravel() for name, ids in features.items()}})
        return
    if setting.source == PARQUET:
        record_files.write_parquet(path, GROUP_BATCHES * setting.rows, {
            LABEL: labels.ravel(), **{"I{}".format(number + 1): column for number, column in enumerate(floats.T)},
            **{name: ids.ravel() for name, ids in features.items()}})
        return
    single = np.ones(labels.size, np.int64)
    record_files.write_examples(path, {
        LABEL: record_files.floats(labels.reshape(-1, 1)), DENSE: record_files.floats(floats),
        **{name: record_files.integers(ids.ravel(), single) for name, ids in features.items()}})


def dataset_of(tf: Any, setting: Setting) -> Any:
    """Return the repeated batches of the setting's source: a dict from feature name to tensor."""
    if setting.reads and setting.side != usual_model.PLAIN:
        import ascpipe.tf as asc

        has_columns = setting.source in (LINES, PARQUET)
        specs = _columns(tf, setting) if has_columns else _spec(tf, setting)
        dataset = asc.data.read(setting.data, specs, setting.rows, epochs=None, drop_remainder=True,
                                shuffle=setting.source in (SINGLE_RECORDS, SHUFFLED_RECORDS))
        return dataset.map(_with_dense(tf)) if has_columns else dataset
    return {MEMORY: _of_memory, RECORDS: _of_records, SINGLE_RECORDS: _of_single_records,
            SHUFFLED_RECORDS: _of_shuffled_records, LINES: _of_lines, PARQUET: _of_parquet}[setting.source](tf, setting)


def _of_memory(tf: Any, setting: Setting) -> Any:
    features, labels = usual_model.batches(setting)
    return tf.data.Dataset.from_tensor_slices({**features, LABEL: labels}).repeat()


def _of_records(tf: Any, setting: Setting) -> Any:
    parse = _parser(tf.io.parse_example, _spec(tf, setting))
    dataset = tf.data.TFRecordDataset(setting.data).repeat().batch(setting.rows, drop_remainder=True)
    return dataset.map(parse, num_parallel_calls=CALLS)


def _of_single_records(tf: Any, setting: Setting) -> Any:
    parse = _parser(tf.io.parse_single_example, _spec(tf, setting))
    dataset = tf.data.TFRecordDataset(setting.data).map(parse, num_parallel_calls=CALLS)
    return dataset.shuffle(SHUFFLED).repeat().batch(setting.rows, drop_remainder=True)


def _of_shuffled_records(tf: Any, setting: Setting) -> Any:
    parse = _parser(tf.io.parse_single_example, _spec(tf, setting))
    dataset = tf.data.TFRecordDataset(setting.data).shuffle(SHUFFLED).repeat()
    return dataset.map(parse, num_parallel_calls=CALLS).batch(setting.rows, drop_remainder=True)


def _of_lines(tf: Any, setting: Setting) -> Any:
    names = usual_model.names(setting)

    def decode(line: Any) -> Dict[str, Any]:
        values = tf.io.decode_csv(line, [[0.0]] * (1 + FLOATS) + [tf.constant([0], tf.int64)] * len(names))
        return {LABEL: values[0], DENSE: tf.stack(values[1:1 + FLOATS]), **dict(zip(names, values[1 + FLOATS:]))}

    dataset = tf.data.TextLineDataset(setting.data).skip(1).map(decode, num_parallel_calls=CALLS)
    return dataset.repeat().batch(setting.rows, drop_remainder=True)


def _of_parquet(tf: Any, setting: Setting) -> Any:
    names = usual_model.names(setting)
    floats = ["I{}".format(number + 1) for number in range(FLOATS)]

    def batches() -> Iterator[Dict[str, Any]]:
        import pyarrow.parquet

        for batch in pyarrow.parquet.ParquetFile(setting.data).iter_batches(setting.rows):
            arrays = dict(zip(batch.schema.names, (column.to_numpy() for column in batch.columns)))
            yield {LABEL: arrays[LABEL], DENSE: np.stack([arrays[name] for name in floats], 1),
                   **{name: arrays[name] for name in names}}

    types = {LABEL: tf.float32, DENSE: tf.float32, **dict.fromkeys(names, tf.int64)}
    shapes = {name: [setting.rows, FLOATS] if name == DENSE else [setting.rows] for name in types}
    return tf.data.Dataset.from_generator(batches, types, shapes).repeat()


def _columns(tf: Any, setting: Setting) -> Dict[str, Any]:
    floats = [LABEL, *("I{}".format(number + 1) for number in range(FLOATS))]
    return {**{name: tf.io.FixedLenFeature([], tf.float32, 0.0) for name in floats},
            **{name: tf.io.FixedLenFeature([], tf.int64, 0) for name in usual_model.names(setting)}}


def _with_dense(tf: Any) -> Callable[[Any], Any]:
    def stacked(batch: Dict[str, Any]) -> Dict[str, Any]:
        floats = [batch.pop("I{}".format(number + 1)) for number in range(FLOATS)]
        return {DENSE: tf.stack(floats, 1), **batch}

    return stacked


def _spec(tf: Any, setting: Setting) -> Dict[str, Any]:
    return {LABEL: tf.io.FixedLenFeature([], tf.float32), DENSE: tf.io.FixedLenFeature([FLOATS], tf.float32),
            **{name: tf.io.FixedLenFeature([], tf.int64) for name in usual_model.names(setting)}}


def _parser(parse: Callable[[Any, Any], Any], spec: Dict[str, Any]) -> Callable[[Any], Any]:
    return lambda serialized: parse(serialized, spec)
