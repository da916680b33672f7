"""Program that reads all batches of a file with ``asc.data.read``.

    python -m tests.support.programs.read_all PATH VALUES

A record has VALUES floats. The program prints JSON: the number of records, the sum of the first floats, and the peak of
the resident memory in bytes after half of the records and at the end.
"""
import json
import resource
import sys

import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.data.index import indexed

v1 = tf.compat.v1
BATCH = 256


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def main(path, values):
    with indexed(path)[0] as index:
        records = index.records
    dataset = asc.data.read(path, {"floats": tf.io.FixedLenFeature([values], tf.float32)}, BATCH)
    floats = v1.data.make_one_shot_iterator(dataset).get_next()["floats"]
    fetched = [tf.shape(floats)[0], tf.reduce_sum(floats[:, 0])]
    done, total, half = 0, 0.0, 0
    with v1.Session() as session:
        while done < records:
            count, first = session.run(fetched)
            done += int(count)
            total += float(first)
            if not half and done >= records // 2:
                half = peak()
    sys.stdout.write(json.dumps({"records": done, "total": total, "half": half, "whole": peak()}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
