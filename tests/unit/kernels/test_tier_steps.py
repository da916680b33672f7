"""The steps of a table with rows on disk, in any order that its workers may take them, beside their twins."""
import ctypes
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascpipe.kernels import completions, pinning, transfers
from ascpipe.kernels.asks import LACKS_HOMES, LACKS_NOTHING
from ascpipe.kernels.tier_memory import SPILLING
from ascpipe.layout.words import HOME_DISK, PLAN_OK
from tests.reference import completions as completion_twins
from tests.reference import pinning as pinning_twins
from tests.reference import transfers as transfer_twins
from tests.support.twin_disk import DiskWorker
from tests.support.twin_steps import Steps
from tests.support.twin_table import list_of

BOTH, HOMES = (4, 9), (0, 6)  # device rows, home rows
DISK_SLOTS = 14
KEYS = st.lists(st.integers(0, 13), unique=True, max_size=4)
ACTIONS = ([*["touch", "pin", "move", "disk", "plan"] * 4, *["complete", "assign"] * 3,
            "take_back", "skip", "restart", "rebuild", "again", "readers", "kill_disk"])
STEPS = st.lists(st.tuples(st.sampled_from(ACTIONS), KEYS, st.integers(0, 3)), max_size=80)


class TierSteps(Steps):
    """Those of a worker, of the disk worker and of readers."""

    def __init__(self, kind, home_memory=math.inf, disk_slots=DISK_SLOTS, threshold=-1):
        super().__init__(kind, threshold, home_memory, 14, disk_slots)
        self.disk_worker = DiskWorker(self.pair)

    @property
    def tier(self):
        return self.pair.table.tier._tier

    def pin(self, *_):
        """Pin the next frame, if there is room."""
        pair = self.pair
        for frame in self.frames_in(planned=False)[:1]:
            queue_has_room = pinning.queue_has_room(self.tier, frame.n)
            assert queue_has_room == pinning_twins.queue_has_room(pair.twin.tier, frame.n)
            if queue_has_room and frame.number > pair.twin.tier.newest_pinned:
                has_room = pinning.have_room(pair.planner, self.tier, list_of(pair.planner, frame.number)[:frame.n])
                assert has_room == pinning_twins.have_room(pair.twin, pair.twin.window[frame.number])
                if has_room:
                    pinning.pin_frame(pair.planner, self.tier, frame.number)
                    pinning_twins.pin_frame(pair.twin, frame.number)

    def move(self, *_):
        pair, planner = self.pair, self.pair.planner
        assert transfers.move_rows(planner, self.tier) == transfer_twins.move_rows(pair.twin)
        assert transfers.is_out_of_disk_slots(planner, self.tier) == transfer_twins.is_out_of_disk_slots(pair.twin)
        high, ready = int(planner["home_high_water"]), int(pair.header["homes_ready"])
        if pair.twin.tier.fetch_queue and not pair.twin.tier.free and high == ready < planner["home_rows"]:
            planner["home_reach"] = min(int(planner["home_rows"]), high + 2)
            pair.table.provide(LACKS_HOMES, 0)
            pair.provided()

    def disk(self, _, choice):
        """The disk worker takes requests and ends one that it is at; some writes fail."""
        self.disk_worker.step(choice, fails=choice == 3)

    def kill_disk(self, _, choice):
        """The disk worker dies; its successor takes again what was asked."""
        self.disk_worker.die(choice)

    def complete(self, *_):
        pair = self.pair
        assert completions.complete_requests(pair.planner, self.tier) == completion_twins.complete_requests(pair.twin)

    def readers(self, _, which):
        """A reader begins, or ends."""
        pair, reader = self.pair, which % 2
        epoch = 0 if reader in pair.twin.tier.readers else pair.twin.tier.epoch
        pair.segment.disk_table["readers"][reader] = epoch
        pair.twin.tier.readers.pop(reader, None)
        if epoch:
            pair.twin.tier.readers[reader] = epoch

    def plan_one(self, frame):
        lacks = pinning.lacks_rows(self.pair.planner, frame.number)
        assert lacks == pinning_twins.lacks_rows(self.pair.twin, frame.number)
        if lacks == (LACKS_NOTHING, PLAN_OK):
            super().plan_one(frame)
        elif lacks[0] == LACKS_NOTHING:  # the step ends with an error
            self.statuses.append(lacks[1])
            self._leave(frame)

    def rebuild(self, *_):
        """As after a cut: the worker has waited for the disk worker, and let it end."""
        if not self.frames_in(planned=True) and not self.pair.twin.tier.in_flight:
            super().rebuild()


@settings(deadline=None)
@pytest.mark.parametrize("kind", [BOTH, HOMES], ids=["both", "homes"])
@given(st.sampled_from([math.inf, math.inf, 5]), st.sampled_from([DISK_SLOTS, 7]), STEPS)
def test_a_table_with_rows_on_disk_takes_the_steps_of_its_twin(kind, home_memory, disk_slots, steps):
    worker = TierSteps(kind, home_memory, disk_slots)
    for step in steps:
        worker.take(*step)


#: in the order in which a worker takes them; some are left out at random
ROUND = ["touch", "pin", *["move", "disk", "disk", "complete"] * 3, "plan", "assign",
         "skip", "take_back", "restart", "kill_disk", "readers"]
OFTEN = {"skip": 0.05, "take_back": 0.1, "restart": 0.05, "kill_disk": 0.05, "readers": 0.4}


def busy(kind, seed, **options):
    """A long run in which most rows go to disk and come back."""
    random, worker = np.random.RandomState(seed), TierSteps(kind, **options)
    for _ in range(120):
        for name in ROUND:
            if random.rand() < OFTEN.get(name, 0.8):
                worker.take(name, random.permutation(14)[:random.randint(0, 5)].tolist(), int(random.randint(3)))
    return worker


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", [BOTH, HOMES], ids=["both", "homes"])
@pytest.mark.each_value
@pytest.mark.long_once_more
def test_rows_go_to_disk_and_come_back_in_a_long_run(kind, seed):
    worker = busy(kind, seed)
    tier = worker.pair.twin.tier
    assert tier.fetches > 8 and tier.spills > 8, (tier.fetches, tier.spills)
    assert worker.statuses.count(PLAN_OK) > 20


def with_disk_done(worker, *steps):
    """Take steps, each (name, keys), then let the disk worker do all that is asked."""
    for name, *keys in steps:
        worker.take(name, *(keys or [[]]), 0)
    tier = worker.pair.twin.tier
    for _ in range(30):
        for name in ("move", "disk", "complete"):
            worker.take(name, [], 0)
    assert tier.lost >= 0 or not tier.in_flight


def test_a_row_that_cannot_be_read_is_told():
    worker = TierSteps(HOMES)
    for keys in ([0, 1, 2], [3, 4, 5], [6, 7, 8]):
        with_disk_done(worker, ("touch", keys), ("pin",))
        worker.take("plan", [], 0)
        worker.take("assign", [], 0)
    tier, twin = worker.pair.twin.tier, worker.pair.twin
    away = next(key for key, entry in twin.index.items() if twin.entries[entry].home <= HOME_DISK)
    for name, keys in (("touch", [away]), ("pin", []), ("move", [])):
        worker.take(name, keys, 0)
    while not tier.fetches:
        for name in ("disk", "complete", "move"):
            worker.take(name, [], 0)
    (home,) = tier.in_flight
    worker.disk_worker.end(home, -2)  # a damage
    worker.take("complete", [], 0)
    assert tier.lost == home
    assert worker.pair.table.tier.error("user", ["/disk"]).key == away


def with_rows_on_their_way_to_disk():
    """Return a worker that has trained two batches and is moving the rows of the first batch to disk."""
    worker = TierSteps(HOMES)
    for keys in ([0, 1, 2], [3, 4, 5]):
        with_disk_done(worker, ("touch", keys), ("pin",))
        worker.take("plan", [], 0)
        worker.take("assign", [], 0)
    for name, keys in (("touch", [6, 7, 8]), ("pin", []), ("move", [])):
        worker.take(name, keys, 0)
    return worker


def test_the_disk_slot_of_a_write_that_failed_is_not_used_again():
    worker = with_rows_on_their_way_to_disk()
    tier, blocks = worker.pair.twin.tier, int(worker.tier["blocks"])
    taken_slots = np.frombuffer((ctypes.c_int32 * blocks).from_address(int(worker.tier["counts_at"])), np.int32)
    spilling = [home for home, status in enumerate(tier.status) if status == SPILLING]
    taken = int(taken_slots.sum())
    assert taken == len(spilling) == 3
    for home in spilling:
        worker.disk_worker.end(home, 5)
    worker.take("complete", [], 0)
    assert tier.failed_writes == 3
    assert int(taken_slots.sum()) == taken


def test_a_row_that_is_needed_while_it_is_on_its_way_to_disk_stays():
    worker = with_rows_on_their_way_to_disk()
    twin = worker.pair.twin
    spilling = [twin.tier.owners[home] for home, status in enumerate(twin.tier.status) if status == SPILLING]
    assert len(spilling) == 3
    keys = [key for key, entry in twin.index.items() if entry in spilling]
    with_disk_done(worker, ("skip",), ("touch", keys), ("pin",))
    assert all(twin.entries[entry].home >= 0 for entry in spilling)
    assert twin.tier.fetches == 0
    worker.take("plan", [], 0)
    assert worker.statuses == [PLAN_OK] * 3
