"""Program that reads and parses a file of tf.Examples, and trains nothing: `python -m bench.parse_program JSON`.

JSON has the fields of ``Setting``. The program fetches one feature of each batch. The answers have the fields of
``bench/usual_program.py``. The sides differ in one import and one call at the start of the program.
"""
import json
import sys
from typing import Any, Dict, List, NamedTuple

import numpy as np

from bench import record_files, usual_program, workloads
from bench.usual_input import CALLS
from bench.usual_model import DENSE, LABEL, OURS

PREFETCH = 10


class Setting(NamedTuple):
    """Setting of the file and of the program.

    Attributes:
        side: OURS or PLAIN.
        columns: number of features of int64 values.
        most_values: maximum number of values of such a feature in a record. If it is 1, all records have one value.
        floats: number of values of the feature DENSE. With 0 there is no such feature.
        one_by_one: whether records are parsed one by one and then batched.
        reads: whether the side OURS reads by ``asc.data.read``. Otherwise, both sides have the same dataset.
        readers: number of threads of ``asc.data.read``.
        rows: records of a batch.
        batches: number of different batches, which are repeated.
        keys: number of different values of a feature.
        exponent: exponent of the Zipf distribution of the values.
        prefetch: number of prefetched batches.
        data: path of the file.
    """

    side: str
    columns: int
    most_values: int = 1
    floats: int = 0
    one_by_one: bool = False
    reads: bool = False
    readers: int = 1
    rows: int = 4096
    batches: int = 16
    keys: int = 100000
    exponent: float = 1.05
    prefetch: int = PREFETCH
    data: str = ""


def names(setting: Setting) -> List[str]:
    """Return the names of the features of int64 values."""
    return ["C{}".format(number + 1) for number in range(setting.columns)]


def write_file(setting: Setting, path: str) -> None:
    """Write the file."""
    random = np.random.RandomState(1)
    records = setting.batches * setting.rows
    label = random.randint(0, 2, size=(records, 1)).astype(np.float32)
    columns = {LABEL: record_files.floats(label)}
    if setting.floats:
        columns[DENSE] = record_files.floats(random.random_sample((records, setting.floats)).astype(np.float32))
    for number, name in enumerate(names(setting)):
        counts = random.randint(1, setting.most_values + 1, size=records)
        ranks = workloads.Zipf(setting.keys, setting.exponent, seed=number).ranks(int(counts.sum()))
        columns[name] = record_files.integers(random.permutation(setting.keys)[ranks], counts)
    record_files.write_examples(path, columns)


def dataset_of(tf: Any, setting: Setting) -> Any:
    """Return the repeated batches of the file: a dict from feature name to tensor."""
    spec: Dict[str, Any] = {LABEL: tf.io.FixedLenFeature([], tf.float32)}
    if setting.floats:
        spec[DENSE] = tf.io.FixedLenFeature([setting.floats], tf.float32)
    feature = tf.io.FixedLenFeature([], tf.int64) if setting.most_values == 1 else tf.io.VarLenFeature(tf.int64)
    spec.update(dict.fromkeys(names(setting), feature))
    if setting.reads and setting.side == OURS:
        import ascpipe.tf as asc

        return asc.data.read(setting.data, spec, setting.rows, epochs=None, drop_remainder=True,
                             readers=setting.readers)
    dataset = tf.data.TFRecordDataset(setting.data).repeat()
    if setting.one_by_one:
        dataset = dataset.map(lambda record: tf.io.parse_single_example(record, spec), num_parallel_calls=CALLS)
        return dataset.batch(setting.rows, drop_remainder=True)
    dataset = dataset.batch(setting.rows, drop_remainder=True)
    return dataset.map(lambda records: tf.io.parse_example(records, spec), num_parallel_calls=CALLS)


def run(setting: Setting) -> None:
    """Read a batch, and then the requested numbers of batches."""
    from bench.sessions import tf

    if setting.side == OURS:
        import ascpipe.tf as asc

        asc.init()
    turns = usual_program.Turns(setting.side, has_workers=False)
    iterator = tf.data.make_initializable_iterator(dataset_of(tf, setting).prefetch(setting.prefetch))
    feature = iterator.get_next()[names(setting)[0]]
    with tf.Session() as session:
        session.run(iterator.initializer)
        steps = 1
        while steps:
            for _ in range(steps):
                session.run(feature)
            steps = turns.steps_to_do()


if __name__ == "__main__":
    run(Setting(**json.loads(sys.argv[1])))
