"""The process at the other end of the ``handoff`` case: `python -m bench.handoff_peer ROLE BATCHES ...`."""
import sys
from typing import Any, List

import numpy as np

from bench.workloads import checksum


def serve_zmq(address: str, batches: int) -> None:
    """Take batches from a ZeroMQ socket until an empty one comes."""
    import zmq

    with zmq.Context() as context:
        with context.socket(zmq.PULL) as pull, context.socket(zmq.PUSH) as answers:
            pull.set_hwm(8)
            pull.connect(address)
            answers.connect(address + "-answers")
            while True:
                for _ in range(batches):
                    batch = pull.recv(copy=False).buffer
                    if not batch.nbytes:
                        return
                    found = checksum(np.frombuffer(batch, np.int64))
                answers.send(found.to_bytes(8, "little", signed=True))


def serve_queue(queue: Any, answers: Any, batches: int) -> None:
    """Take batches from a queue of multiprocessing until None comes."""
    while True:
        for _ in range(batches):
            ids = queue.get()
            if ids is None:
                return
            found = checksum(ids)
        answers.put(found)


def main(arguments: List[str]) -> int:
    role, batches, rest = arguments[0], int(arguments[1]), arguments[2:]
    if role == "zmq":
        serve_zmq(rest[0], batches)
    elif role == "ring":
        from bench.handoff_ring import consume

        consume([int(value) for value in rest])
    else:
        raise ValueError("unknown role {!r}".format(role))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
