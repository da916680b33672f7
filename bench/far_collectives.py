"""Program that measures each of Horovod's collectives. A launcher runs ``far_collectives.py TIMES``."""
import statistics
import sys
import time
from typing import Any, Dict, List

_FLOATS = 29633  # number of floats in the dense layers of the model of ``ranks``


def main(arguments: List[str]) -> None:
    """Measure the collectives. Only rank 0 prints."""
    from bench.sessions import tf  # before Horovod, whose import of TensorFlow would print warnings

    import horovod.tensorflow as hvd  # isort: skip

    hvd.init()
    measured: Dict[str, Any] = {}
    for size in (64, 1200000):
        sent = [size // 8 // hvd.size()] * hvd.size()
        received = hvd.alltoall(tf.random.uniform([sum(sent)], maxval=9, dtype=tf.int64), sent)
        measured["alltoall of {:,} bytes".format(size)] = received[0] if isinstance(received, (tuple, list)) \
            else received
    measured["sum of one number"] = hvd.allreduce(tf.random.uniform([]), op=hvd.Sum)
    measured["sum of {:,} numbers".format(_FLOATS)] = hvd.allreduce(tf.random.uniform([_FLOATS]), op=hvd.Sum)
    measured["sums of 6 tensors"] = [hvd.allreduce(tf.random.uniform([_FLOATS // 6]), op=hvd.Sum) for _ in range(6)]
    with tf.Session() as session:
        for name, fetch in measured.items():
            times = []
            for _ in range(int(arguments[0]) + 1):
                began = time.perf_counter()
                session.run(fetch)
                times.append(1e3 * (time.perf_counter() - began))
            if hvd.rank() == 0:
                print("{}: {:.1f} ms".format(name, statistics.median(times[1:])), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
