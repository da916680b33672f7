"""Training with rows on a disk that is slow, fails or goes, in a mount namespace whose end unmounts all.

    python -m tests.support.programs.tier_disks CASE FOLDER

It prints a line of JSON: digests of losses and state, of a run that ended and of the one that went on from its last
checkpoint together, and the text of the error that ended it.
"""
import contextlib
import errno
import json
import os
import subprocess
import sys
import time
from typing import Any, Callable, Dict, Iterator, List

import numpy as np

from bench.slow_disk import SlowDisk

SAVED_AT, FAULT_AT = 60, 70

Events = Dict[int, Callable[[], Any]]


def mounted(folder: str) -> str:
    """A file system in memory of 1 MiB."""
    path = os.path.join(folder, "small")
    os.mkdir(path)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", path], check=True)
    return path


def fuse(folder: str) -> Any:
    """A slow disk; made before TensorFlow is there, as it forks."""
    path = os.path.join(folder, "slow")
    os.mkdir(path)
    return path, SlowDisk(path).control


def usual(folder: str) -> Dict[str, Any]:
    """Nothing happens."""
    path, _ = fuse(folder)
    return whole(path, {})


def slow(folder: str) -> Dict[str, Any]:
    """For some steps each read and write takes a second."""
    path, control = fuse(folder)
    return whole(path, {FAULT_AT: lambda: control.__setitem__("delay_ms", 1000),
                        FAULT_AT + 3: lambda: control.__setitem__("delay_ms", 0)})


def stuck(folder: str) -> Dict[str, Any]:
    """The disk does not answer until a step is said to wait for it."""
    path, control = fuse(folder)
    from tests.support.programs.scenarios import Background, wait_for

    def answer_once_it_is_missed() -> None:
        wait_for("trainer", "the disk worker to read rows")
        control["held"] = 0

    def stop() -> None:
        control["held"] = 1
        waiting.append(Background(answer_once_it_is_missed))

    waiting: List[Any] = []
    told = whole(path, {FAULT_AT: stop})
    waiting[0].join().returned()
    return told


def slower(folder: str) -> Dict[str, Any]:
    """For some steps each read and write takes more than half of the time after which a disk is taken for dead."""
    path, control = fuse(folder)
    delay_ms = int(600 * float(os.environ["ASCPIPE_DISK_PATIENCE_S"]))
    return whole(path, {FAULT_AT: lambda: control.__setitem__("delay_ms", delay_ms),
                        FAULT_AT + 3: lambda: control.__setitem__("delay_ms", 0)})


def silent(folder: str) -> Dict[str, Any]:
    """The disk answers no more until the run has ended."""
    path, control = fuse(folder)
    began: List[float] = []

    def hold() -> None:
        control["held"] = 1
        began.append(time.monotonic())

    def release() -> None:
        began.append(time.monotonic())
        control["held"] = 0

    answer = ended_and_restored(folder, path, {FAULT_AT: hold}, release)
    return {**answer, "ended_after_s": began[1] - began[0]}


def gone(folder: str) -> Dict[str, Any]:
    """The directory vanishes: its files stay."""
    path = mounted(folder)
    return whole(path, {FAULT_AT: lambda: subprocess.run(["umount", "-l", path], check=True)})


def unreadable(folder: str) -> Dict[str, Any]:
    """Reads fail from a step on."""
    path, control = fuse(folder)
    return ended_and_restored(
        folder, path, {FAULT_AT: lambda: control.__setitem__("read_error", errno.EIO)},
        lambda: control.__setitem__("read_error", 0))


def unread(folder: str) -> Dict[str, Any]:
    """When all is trained, an evaluation and a save cannot read for a while."""
    from ascpipe.tf import Saver
    from tests.support.programs.tiers import STEPS

    path, control = fuse(folder)
    losses: List[float] = []
    with session(path) as (everything, running):
        train(everything, running, range(STEPS), {}, losses)
        control["error"] = errno.EIO
        errors = [failed(lambda: everything.state(running)),
                  failed(lambda: Saver().save(running, os.path.join(folder, "model")))]
        control["error"] = 0
        return {**told(losses, everything.state(running)), "errors": errors, "directory": path}


def failed(call: Callable[[], Any]) -> str:
    """The text of the error that a call ends with; "" if it does not."""
    import tensorflow as tf

    try:
        call()
    except tf.errors.OpError as error:
        return error.message
    return ""


def full(folder: str) -> Dict[str, Any]:
    """The disk, which had room, is full after two steps."""
    path = mounted(folder)
    filler = os.path.join(path, "filler")

    def fill() -> None:
        with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))

    return ended_and_restored(folder, path, {2: fill}, lambda: os.remove(filler), saved_at=2)


def whole(path: str, events: Events) -> Dict[str, Any]:
    """One run."""
    from tests.support.programs.tiers import STEPS

    losses: List[float] = []
    with session(path) as (everything, running):
        train(everything, running, range(STEPS), events, losses)
        return told(losses, everything.state(running))


def ended_and_restored(folder: str, path: str, events: Events, mend: Callable[[], None],
                       saved_at: int = SAVED_AT) -> Dict[str, Any]:
    """A run that ends with an error, and one that goes on from what the first has saved."""
    from ascpipe.tf import Saver
    from tests.support.programs.tiers import STEPS

    losses: List[float] = []
    prefix = os.path.join(folder, "model")
    with session(path) as (everything, running):
        train(everything, running, range(saved_at), {}, losses)
        Saver().save(running, prefix)
        text = failed(lambda: train(everything, running, range(saved_at, STEPS), events, []))
    mend()
    with session(path, skip=saved_at) as (everything, running):
        Saver().restore(running, prefix)
        train(everything, running, range(saved_at, STEPS), {}, losses)
        return {**told(losses, everything.state(running)), "error": text, "directory": path}


@contextlib.contextmanager
def session(path: str, skip: int = 0) -> Iterator[Any]:
    """The program with rows below ``path``, and a session of its graph."""
    import tensorflow as tf

    from mx_rec.util.initialize import init, terminate_config_initializer
    from tests.support.programs import scenarios
    from tests.support.programs.tiers import Everything

    with tf.Graph().as_default():
        init()
        try:
            everything = Everything(path, skip)
            with scenarios.started() as running:
                running.run(everything.iterator.initializer)
                yield everything, running
        finally:
            terminate_config_initializer()


def train(everything: Any, running: Any, steps: range, events: Events, losses: List[float]) -> None:
    """Steps, with the events before them."""
    for number in steps:
        if number in events:
            events[number]()
        losses.append(everything.step(running, number))


def told(losses: List[float], state: List[Any]) -> Dict[str, Any]:
    """Digests."""
    from tests.support.programs.tiers import digest

    return {"losses": digest(np.array(losses, np.float32).tobytes()), "state": digest(repr(state).encode()),
            "steps": len(losses)}


CASES = {case.__name__: case for case in (usual, slow, slower, stuck, silent, gone, unreadable, unread, full)}


def main() -> None:
    """One case."""
    name, folder = sys.argv[1:]
    answer = CASES[name](folder)
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
