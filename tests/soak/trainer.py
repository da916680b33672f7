"""Trains the program until its standard input ends; `python -m tests.soak` starts it.

    python -m tests.soak.trainer SEED FOLDER [PLANT_AT]

Every second it prints a line of JSON: how much it has done. At the step PLANT_AT it flips a bit of a row in shared
memory, which must be found. It ends with 1 and a line that says what is not as expected.
"""
import collections
import contextlib
import json
import os
import signal
import sys
import threading
import time
import warnings
from typing import Any, Counter, Dict, List

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tensorflow as tf

import numpy as np

from ascpipe.checkpoint.retention import complete_checkpoints
from ascpipe.errors import AscpipeError
from ascpipe.layout.words import TRAINED
from ascpipe.tf import Saver, wait_for_save
from mx_rec.core.asc.manager import start_asc_pipeline
from mx_rec.util.initialize import init, terminate_config_initializer, trigger_evict
from tests.soak import events
from tests.soak.modelled import NotAsExpectedError, Program, Saved, require_checkpoint
from tests.support.programs.counted import table_view
from tests.support.programs.scenarios import session

SAYS_EVERY_S = 1.0
KEPT = 3  #: full checkpoints


class Training:
    """A program that trains, saves and restores.

    Attributes:
        done: how often each event took place, by its name.
    """

    def __init__(self, program: Program, running: tf.compat.v1.Session, folder: str) -> None:
        self._program, self._running, self._folder = program, running, folder
        self._saver = Saver(max_to_keep=KEPT)
        self._saved: Dict[str, Saved] = {}
        self._saves = 0
        self.done: Counter[str] = collections.Counter()

    def handle(self, event: events.Event) -> None:
        """What an event asks for."""
        if event.what in events.SAVES:
            is_delta = event.what == events.SAVE_DELTA
            self.save(background=event.what == events.SAVE_BACKGROUND or is_delta and event.draw < 0.5, delta=is_delta)
        elif event.what == events.RESTORE:
            self._restore(event.draw)
        elif event.what == events.EVICT:
            trigger_evict(self._running)
            self._program.evicted()
        elif event.what == events.THRESHOLD:
            self._program.set_threshold(self._running, 1 + int(4 * event.draw))
        else:
            self._program.evaluate(self._running)
        self.done[event.what] += 1

    def save(self, *, background: bool = False, delta: bool = False) -> str:
        """A checkpoint with what it must hold; its prefix."""
        saved, self._saves = self._program.saved(), self._saves + 1
        prefix = str(self._saver.save(self._running, os.path.join(self._folder, "model"), global_step=self._saves,
                                      save_delta=delta, background=background))
        there = self._there()
        self._saved = {name: kept for name, kept in self._saved.items() if name in there}
        self._saved[prefix] = saved
        return prefix

    def _there(self) -> List[str]:
        return [found.prefix for found in complete_checkpoints(self._folder)]

    def _restore(self, draw: float) -> None:
        """One of those that are there, once it was compared."""
        wait_for_save()
        there = [prefix for prefix in self._there() if prefix in self._saved]
        prefix = there[int(draw * len(there))]
        require_checkpoint(prefix, self._saved[prefix])
        self._saver.restore(self._running, prefix)
        self._program.restored(self._saved[prefix])
        self._program.require_sizes(self._running)

    def end(self) -> None:
        """All that there is, once more."""
        wait_for_save()
        self._program.require_sizes(self._running)
        prefix = self.save()
        require_checkpoint(prefix, self._saved[prefix])


def flip_a_bit(program: Program) -> None:
    """Of the row of a key that is in host memory alone, and comes again."""
    program.tables["item"].size()  # waits for the truth
    view = table_view(program.tables["item"].shape.number)
    entries = view.entries[:int(view.header["entries_used"])]
    home = np.flatnonzero((entries["state"] == TRAINED) & (entries["slot"] < 0) & (entries["home"] >= 0))
    entry = entries[home[np.argmax(entries["count"][home])]]
    view.homes[int(entry["home"])].view(np.uint32)[0] ^= 1


def say(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def train(seed: int, folder: str, plant_at: int, is_over: threading.Event) -> None:
    """Until ``is_over``."""
    program = Program(seed, os.path.join(folder, "rows"))
    start_asc_pipeline()
    with session() as running:
        running.run([*program.initializers, tf.compat.v1.global_variables_initializer()])
        training = Training(program, running, os.path.join(folder, "checkpoints"))
        said_at = 0.0
        for event in events.events(seed):
            for _ in range(event.steps):
                if program.steps == plant_at:
                    flip_a_bit(program)
                program.step(running)
                if time.monotonic() - said_at > SAYS_EVERY_S or is_over.is_set():
                    said_at = time.monotonic()
                    say(steps=program.steps, **training.done)
                if is_over.is_set():
                    break
            if is_over.is_set():
                break
            training.handle(event)
        training.end()
        say(steps=program.steps, ended=True, **training.done)


def _until_input_ends(is_over: threading.Event) -> None:
    with contextlib.suppress(OSError):
        sys.stdin.read()
    is_over.set()


def main() -> int:
    """Exit code: 0 as expected."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # what started it says when it is over
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    seed, folder = int(sys.argv[1]), sys.argv[2]
    plant_at = int(sys.argv[3]) if len(sys.argv) > 3 else -1
    is_over = threading.Event()
    threading.Thread(target=_until_input_ends, args=(is_over,), daemon=True).start()
    init()
    try:
        train(seed, folder, plant_at, is_over)
    except (NotAsExpectedError, AscpipeError, tf.errors.OpError) as error:
        say(broke="{}: {}".format(type(error).__name__, error))
        raise
    finally:
        terminate_config_initializer()
    return 0


if __name__ == "__main__":
    sys.exit(main())
