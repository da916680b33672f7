"""Makes the records of ``ascend_census_mmoe`` of a table of text, as its preparing program does; run it by
``ascpipe run``.

    ascend_census_records.py train.csv folder/train/0.tfrecord test.csv folder/test/0.tfrecord

A line has two labels, 29 numbers of categories and 11 numbers.
"""
import csv
import sys
import warnings

warnings.simplefilter("ignore")

import tensorflow as tf

from mx_rec.saver.patch import validate_save_path
from mx_rec.saver.saver import validate_read_file


def feature(kind, values):
    if kind is int:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[int(value) for value in values]))
    return tf.train.Feature(float_list=tf.train.FloatList(value=[float(value) for value in values]))


def main(source, target):
    validate_read_file(source)
    validate_save_path(target)
    with open(source) as file, tf.io.TFRecordWriter(target) as writer:
        for line in csv.reader(file):
            writer.write(tf.train.Example(features=tf.train.Features(feature={
                "label": feature(int, line[:2]), "sparse_feature": feature(int, line[2:31]),
                "dense_feature": feature(float, line[31:42])})).SerializeToString())


if __name__ == "__main__":
    for source, target in zip(sys.argv[1::2], sys.argv[2::2]):
        main(source, target)
    print("Demo done!")
