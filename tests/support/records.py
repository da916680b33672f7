"""Writes TFRecord files of made-up lines, in the layouts that programs read."""
import os
import warnings

import numpy as np

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tensorflow as tf


def write_records(folder, columns, lines, batches, *, vocabulary, seed=1):
    """TFRecord files of one layout, in ``folder/train`` and ``folder/test``.

    Args:
        columns: (name, values per line, type) of each, labels first: int or float; floats are above 0.
        lines: of a record.
        batches: records for training, and for tests.
        vocabulary: ids are below it, of each place of the line other ones.
    """
    random = np.random.RandomState(seed)
    for part, count in zip(("train", "test"), batches):
        path = os.path.join(str(folder), part)
        os.makedirs(path)
        files = [tf.io.TFRecordWriter(os.path.join(path, "{}.tfrecord".format(number))) for number in range(2)]
        for number in range(count):
            values = {}
            for name, size, kind in columns:
                if name == "label":
                    values[name] = random.randint(0, 2, (lines, size))
                elif kind is int:
                    values[name] = random.randint(0, vocabulary // size, (lines, size)) + \
                        np.arange(size) * (vocabulary // size)
                else:
                    values[name] = random.randint(0, 100, (lines, size)) / 10.0
            files[number * 2 // count].write(tf.train.Example(features=tf.train.Features(feature={
                name: _feature(kind, values[name]) for name, _, kind in columns})).SerializeToString())
        for file in files:
            file.close()


def _feature(kind, values):
    if kind is int:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values.ravel()))
    return tf.train.Feature(float_list=tf.train.FloatList(value=values.ravel()))
