"""Program of ranks that only exchange bytes with Horovod's alltoall. A launcher runs `ranks_exchange.py BYTES PORT`.

A step is one exchange. Each rank sends BYTES in total to the other ranks, and nothing to itself.
"""
import contextlib
import sys
import time
from typing import Iterator, List

from bench import ranks_program
from bench.train_sides import Step

_ROW_BYTES = 64  # size of a row; an exchange is counted in rows


def main(arguments: List[str]) -> None:
    """Exchange bytes until the end of the input."""
    with _exchange(int(arguments[0])) as step:
        ranks_program.answer_turns(step, time.process_time, int(arguments[1]))


@contextlib.contextmanager
def _exchange(sent_bytes: int) -> Iterator[Step]:
    from bench.sessions import tf  # before Horovod, whose import of TensorFlow would print warnings

    import horovod.tensorflow as hvd  # isort: skip

    hvd.init()
    rows = sent_bytes // _ROW_BYTES // (hvd.size() - 1)
    splits = [0 if rank == hvd.rank() else rows for rank in range(hvd.size())]
    sent = tf.get_variable("sent", [sum(splits), _ROW_BYTES // 8], tf.int64, tf.zeros_initializer())
    received = hvd.alltoall(sent, splits)
    received = received[0] if isinstance(received, (tuple, list)) else received
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        yield session.make_callable(received.op)


if __name__ == "__main__":
    main(sys.argv[1:])
