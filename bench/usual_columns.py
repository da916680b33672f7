"""Typical wide and deep model on TensorFlow's feature columns: `python -m bench.usual_columns JSON`.

The program reads a file of tf.Examples and parses them batch by batch. ``write_examples`` writes the file before. JSON
has the fields of ``Setting``. The sides differ in one call at the start of the program. The answers have the
fields of ``bench/usual_program.py``. The seconds to the first step start with the call of ``train``.
"""
import json
import sys
import tempfile
from typing import Any, Dict, List, NamedTuple, Tuple

import numpy as np

from bench import usual_program, workloads
from bench.usual_model import OURS, PREFETCH

DIM = 8
HIDDEN_UNITS = (128, 64)
LABEL = "label"
LEAST_BUCKETS = 10000  #: minimum number of buckets of a column with a table on our side


class Setting(NamedTuple):
    """Setting of the training.

    Attributes:
        side: OURS or PLAIN.
        fields: number of fields. Each field has one id per row, a text.
        rows: rows of a batch.
        buckets: number of buckets of each field's column, and of its different ids.
        exponent: exponent of the Zipf distribution of the ids.
        batches: number of different batches, which are repeated.
        data: path of the file of tf.Examples.
    """

    side: str
    fields: int
    rows: int
    buckets: int = 10 ** 6
    exponent: float = 1.05
    batches: int = 16
    data: str = ""


def names(setting: Setting) -> List[str]:
    """Return the names of the fields."""
    return ["C{}".format(number + 1) for number in range(setting.fields)]


def batches(setting: Setting) -> Tuple[Dict[str, np.ndarray], np.ndarray]:
    """Return several batches: text of up to ten digits, S10[batches, rows] by field, and the labels,
    int64[batches, rows, 1].
    """
    stream = workloads.Zipf(setting.buckets, setting.exponent, seed=1)
    shape = setting.batches, setting.rows
    # Numbers of 32 bits are used, because a C++ string holds their text without an allocation.
    features = {name: (stream.keys(setting.batches * setting.rows).view(np.uint64) >> np.uint64(32))
                .astype("S10").reshape(shape) for name in names(setting)}
    return features, np.random.RandomState(1).randint(0, 2, size=(*shape, 1))


def write_examples(setting: Setting, path: str) -> None:
    """Write the batches to a file of tf.Examples."""
    from bench.sessions import tf

    features, labels = batches(setting)
    texts = {name: ids.ravel() for name, ids in features.items()}
    with tf.io.TFRecordWriter(path) as file:
        for row, label in enumerate(labels.ravel()):
            example = tf.train.Example()
            for name, ids in texts.items():
                example.features.feature[name].bytes_list.value.append(ids[row])
            example.features.feature[LABEL].int64_list.value.append(label)
            file.write(example.SerializeToString())


def train(setting: Setting) -> None:
    """Train a step, and then the requested numbers of steps."""
    from bench.sessions import tf
    from bench.usual_estimator import Turns

    if setting.side == OURS:
        import ascpipe.tf as asc

        asc.use_for_feature_columns(min_buckets=LEAST_BUCKETS)
    wide = [tf.feature_column.categorical_column_with_hash_bucket(name, setting.buckets) for name in names(setting)]
    deep = [tf.feature_column.embedding_column(column, DIM) for column in wide]
    spec = {**tf.feature_column.make_parse_example_spec([*wide, *deep]), LABEL: tf.io.FixedLenFeature([1], tf.int64)}

    def parse(examples: Any) -> Any:
        features = tf.io.parse_example(examples, spec)
        label = features.pop(LABEL)
        return features, label

    def input_fn() -> Any:
        return tf.data.TFRecordDataset(setting.data).repeat().batch(setting.rows).map(parse).prefetch(PREFETCH)

    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        classifier = tf.compat.v1.estimator.DNNLinearCombinedClassifier(
            model_dir=folder, linear_feature_columns=wide, dnn_feature_columns=deep,
            dnn_hidden_units=list(HIDDEN_UNITS))
        turns = usual_program.Turns(setting.side)
        classifier.train(input_fn, hooks=[Turns(turns.steps_to_do)])


if __name__ == "__main__":
    train(Setting(**json.loads(sys.argv[1])))
