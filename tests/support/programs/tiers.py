"""A program with everything a table can do, whose workers are killed: swaps, admission, eviction, optimizer slots.

It says what it computed as digests, so two runs of it can be compared bit by bit.
"""
import hashlib
import os
import signal
import threading
import time
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import tensorflow as tf

from ascpipe.layout.words import CUT_EVICT, CUT_THRESHOLD, HOME_DISK, HOME_NONE, TRAINED
from ascpipe.tf.graph.features import FeatureSpec
from ascpipe.tf.running import native
from ascpipe.tf.running.hold_between_steps import DiskRows, hold
from mx_rec.core.asc.helper import get_asc_insert_func
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.optimizers import adagrad
from tests.support.programs.counted import table_view
from tests.support.programs.scenarios import Background, main, started, status
from tests.support.tensorflows import use_tensorflow_1
from tests.support.waiting import wait_until

use_tensorflow_1()

DIM, KEYS, WIDTH, STEPS = 4, 150, 12, 160
HOMES = 20  #: of a table with rows on disk, beside those of the device
EVICT_EVERY, EVICT_AGE = 20, 90
RAISE_AT = 70  #: the step before which the access threshold becomes 3


class Everything:
    """Two tables in one stream: ``user`` on the device alone, ``item`` with a device of one batch.

    With a folder, ``item`` has home rows for little more than two batches, and the other rows are on disk. ``skip``:
    batches that were trained before.
    """

    def __init__(self, folder: str = "", skip: int = 0) -> None:
        first = tf.compat.v1.random_normal_initializer(stddev=0.3, seed=3)
        sizes: Dict[str, Any] = {"host_vocabulary_size": KEYS}
        if folder:
            sizes = {"host_vocabulary_size": HOMES, "ssd_vocabulary_size": KEYS - HOMES, "ssd_data_path": [folder]}
        self.tables = [create_table(tf.int64, DIM, "user", first, device_vocabulary_size=KEYS),
                       create_table(tf.int64, DIM, "item", first, device_vocabulary_size=WIDTH, **sizes)]
        specs = [FeatureSpec("user", index_key="user"),
                 FeatureSpec("item", index_key="item", access_threshold=2, eviction_threshold=EVICT_AGE)]
        draw = np.random.RandomState(4)
        data = {name: (draw.beta(0.5, 1.2, (STEPS, WIDTH)) * KEYS).astype(np.int64) for name in ("user", "item")}
        data["time"] = 1000 + np.cumsum(draw.randint(0, 9, STEPS)).astype(np.int64)
        stamp = FeatureSpec("time", index_key="time", is_timestamp=True)
        dataset = tf.data.Dataset.from_tensor_slices(data).skip(skip).map(
            get_asc_insert_func([*specs, stamp])).prefetch(40)
        self.iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
        batch = self.iterator.get_next()
        rows = [sparse_lookup(table, spec, batch=batch) for table, spec in zip(self.tables, specs)]
        variables = [table.variable for table in self.tables]
        self._optimizer = adagrad.create_hash_optimizer(0.3)
        loss = tf.reduce_sum(tf.square(rows[0] - 0.1)) + tf.reduce_sum(tf.square(rows[1] + 0.2))
        gated = tf.tuple([*tf.gradients(loss, variables), loss])
        self.loss = gated[-1]
        self.train = self._optimizer.apply_gradients(list(zip(gated[:-1], variables)))
        number = self.tables[1].shape.number
        self.evict = native.ops().asc_cut(argument=tf.constant(EVICT_AGE, tf.int64), table=number, kind=CUT_EVICT)
        self.threshold = native.ops().asc_cut(argument=tf.constant(3, tf.int64), table=number, kind=CUT_THRESHOLD)

    def step(self, running: tf.compat.v1.Session, number: int) -> float:
        """One step with the events before it; its loss."""
        if number and number % EVICT_EVERY == 0:
            running.run(self.evict)
        if number == RAISE_AT:
            running.run(self.threshold)
        return float(running.run([self.loss, self.train])[0])

    def state(self, running: tf.compat.v1.Session) -> List[Tuple[Any, ...]]:
        """Per table and key: count, timestamp, and the bits of row and optimizer slot."""
        found = []
        for table in self.tables:
            size = table.size()  # waits for the truth
            on_device = np.concatenate(running.run(
                [table.variable, self._optimizer.get_slot(table.variable, "accumulator")]), axis=1)
            with hold(alone=False) as held:
                state = _state(table.shape.number, on_device, held.table(table.shape.number).disk)
            if sum(row is not None for *_, row in state) != size:
                raise AssertionError("size {} of table {}, rows {}".format(size, table.table_name, state))
            found.extend((table.table_name, *entry) for entry in state)
        return found


def _state(number: int, on_device: np.ndarray, disk: Optional[DiskRows]) -> List[Tuple[Any, ...]]:
    view = table_view(number)
    found, slots, homes = [], set(), set()
    for index in range(int(view.header["entries_used"])):
        entry = view.entries[index]
        if entry["state"] != TRAINED:
            continue
        slot, home = int(entry["slot"]), int(entry["home"])
        for taken, row_number, none in ((slots, slot, -1), (homes, home, HOME_NONE)):
            if row_number != none and row_number in taken:
                raise AssertionError("row {} of table {} is taken twice".format(row_number, number))
            taken.add(row_number)
        if slot >= 0 and view.slot_entries[slot] != index:
            raise AssertionError("slot {} of table {} belongs to entry {}, not {}".format(
                slot, number, view.slot_entries[slot], index))
        row = on_device[slot] if slot >= 0 else view.homes[home] if home >= 0 else None
        if disk is not None and slot < 0 and home <= HOME_DISK:
            with disk.reading():
                (row,) = disk.read(view.entries[index:index + 1])
        found.append((*(int(entry[field]) for field in ("key", "count", "timestamp")),
                      None if row is None else row.tobytes().hex()))
    return sorted(found)


def stopped(kinds: str, stops: str, seed: str, folder: str = "") -> Dict[str, Any]:
    """As ``trained``; the workers are stopped, stay so, and are replaced before the next one is."""
    return trained(kinds, stops, seed, folder, signal.SIGSTOP)


def trained(kinds: str = "", kills: str = "0", seed: str = "1", folder: str = "",
            by: signal.Signals = signal.SIGKILL) -> Dict[str, Any]:
    """Train; on the way workers are killed at random moments of random steps. Digests of what was computed.

    With $TEST_STEP_S each step takes that long at least: for what is done to the program from outside.
    """
    everything, draw = Everything(folder), np.random.RandomState(int(seed))
    kill_at = dict(zip(sorted(draw.choice(np.arange(3, STEPS - 3), int(kills), replace=False).tolist()),
                       kinds.split("+") * int(kills)))
    losses, recovered_s = [], []
    killed_at: Dict[int, float] = {}
    with started() as running:
        running.run(everything.iterator.initializer)
        for number in range(STEPS):
            threading.Event().wait(float(os.environ.get("TEST_STEP_S", "0")))
            if number - 4 in killed_at:
                recovered_s.append(time.monotonic() - killed_at[number - 4])
            if number in kill_at:
                kind = kill_at[number]
                pid, delay = _worker(kind), float(draw.uniform(0, 0.004))
                killer = Background(lambda: _kill_after(pid, delay, by))  # noqa: B023  (it ends in this round)
                killed_at[number] = time.monotonic() + delay
                losses.append(everything.step(running, number))
                killer.join().returned()
                if by == signal.SIGSTOP:
                    wait_until(lambda: _worker(kind) != pid, 60.0)  # noqa: B023
            else:
                losses.append(everything.step(running, number))
        state = everything.state(running)
        tables = {table["name"]: table for table in status()["tables"]}
    return {"losses": digest(np.array(losses, np.float32).tobytes()), "state": digest(repr(state).encode()),
            "kills": len(kill_at), "loads": tables["item"]["loads"], "evicted": tables["item"]["evicted"],
            "keys": len(state), "fetches": tables["item"].get("fetches"), "spills": tables["item"].get("spills"),
            "recovered_s": recovered_s}


def _kill_after(pid: int, delay_s: float, by: signal.Signals) -> None:
    threading.Event().wait(delay_s)  # any moment of a step will do
    os.kill(pid, by)


def _worker(kind: str) -> int:
    """Pid of the worker of a kind, once it works."""

    def working() -> List[int]:
        return [worker["pid"] for worker in status()["workers"]
                if worker["kind"] == kind and worker["pid"] and worker["attached"]]

    return wait_until(working, 60.0, "a {} worker".format(kind))[0]


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    main({scenario.__name__: scenario for scenario in (trained, stopped)})
