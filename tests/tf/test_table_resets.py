"""Resets between steps with the window full of planned batches: rows, counts and timestamps start anew, exactly there.

A restore that fails or begins elsewhere is, for what was read ahead, a reset too.
"""
import contextlib
import random

import numpy as np
import pytest

from tests.support.waiting import wait_until
from tests.tf import test_table_model as model

RING_FRAMES = 6
PREFETCH = 8  #: of the program's dataset
STEPS = 48
KEYS = 24
ALL_KEYS = list(range(KEYS))


class Source(list):
    """Batches that know how many of them were read."""

    read = 0

    def wait_for(self, count):
        wait_until(lambda: self.read >= min(count, len(self)), what="a full window")

    def __iter__(self):
        self.read = 0
        for batch in super().__iter__():
            self.read += 1
            yield batch


def scenario(seed, tier, threshold, optimizer):
    """Resets, other cuts and evaluations of all keys between steps; after a reset, time begins anew."""
    rng, batches, events, time = random.Random(seed), Source(), {}, 1000
    for step in range(STEPS):
        before = []
        if step and rng.random() < 0.25:
            before += [("evaluate", ALL_KEYS), ("reset", 0), ("evaluate", ALL_KEYS)]
            time = 100 if time > 500 else 1000
        elif rng.random() < 0.5:
            before.append(rng.choice([("evict", 2), ("evict", 10), ("threshold", rng.choice([1, 2, 4]))]))
        if rng.random() < 0.3:
            before.append(("evaluate", ALL_KEYS))
        events[step] = before
        ids = [rng.randrange(KEYS) for _ in range(rng.randrange(1, 9))]
        time += rng.randrange(4)
        gradients = [[np.float32(rng.randrange(-4, 5) / 8) for _ in range(model.DIM)] for _ in ids]
        batches.append({"ids": np.array(ids, np.int64), "time": np.int64(time),
                        "gradients": np.array(gradients, np.float32)})
    return model.Scenario(
        batches=batches, events=events, threshold=threshold, coefficient=1, padding=[],
        device_rows={"device": KEYS, "one batch": 8, "disk": 8, "expansion": 1}[tier],
        host_rows=0 if tier in ("device", "disk") else KEYS, disk_rows=KEYS if tier == "disk" else 0,
        expansion=tier == "expansion", optimizer=optimizer)


def resets_of(scenario):
    return [step for step, before in scenario.events.items() if ("reset", 0) in before]


@pytest.mark.timeout_s(180)
@pytest.mark.parametrize("tier, threshold, optimizer", [
    ("one batch", -1, "gradient_descent"), ("disk", 2, "adagrad"), ("expansion", 2, "adagrad"),
    *(pytest.param(*case, marks=pytest.mark.long) for case in [("device", 2, "adagrad"), ("one batch", 2, "adagrad")])])
def test_a_reset_between_two_steps_finds_the_window_full_and_leaves_nothing_of_before(
        monkeypatch, seed, tier, threshold, optimizer):
    monkeypatch.setenv("ASCPIPE_RING_FRAMES", str(RING_FRAMES))
    program = scenario(seed, tier, threshold, optimizer)
    assert len(resets_of(program)) > 3
    expected = model.expected(program)
    with contextlib.closing(model.found(program)) as found:
        for step in range(STEPS):
            for what in [what for what, _ in program.events[step]] + ["step"]:
                if what == "reset":  # this one and what fills the ring behind it are planned, touched or parked
                    program.batches.wait_for(step + PREFETCH)
                (rows, size), (found_rows, found_size) = next(expected), next(found)
                assert found_size == size, "size at step {} after {}".format(step, what)
                assert size == 0 or what != "reset"
                if rows is not None:
                    np.testing.assert_allclose(found_rows, rows, rtol=2e-6, atol=1e-7,
                                               err_msg="step {}, {}".format(step, what))
        assert next(found, None) is None
