"""Runs a random schedule of a seed: trainer, pump and workers act in any order, workers die between two stores."""
import random
from typing import Dict, Set

from ascpipe.layout import structs
from ascpipe.layout.words import PLANNED
from tests.support.pipeline_sim import Sim
from tests.support.sim_choices import any_tables, ask_any_cut
from tests.support.sim_disk import SimDisk, check_tier
from tests.support.sim_ring import Open
from tests.support.sim_snapshot import may_begin
from tests.support.store_pauses import Killed, Pauses

KEYS = 12


class AnySchedule:
    """One run over a ``Sim``; what it must not do raises AssertionError.

    Args:
        pauses: where workers may be interrupted.
        seed: of everything.
        saves: snapshots are begun and go on during it, and a worker may die as it starts.
        disk: rows go to disk, whose worker may die, too.

    Attributes:
        snapshots, images, waits, kills: how many there were.
    """

    def __init__(self, pauses: Pauses, seed: int, *, saves: bool = False, disk: bool = False) -> None:
        rng = self._rng = random.Random(seed)
        self._pauses = pauses
        self._tables = rng.choice([1, 2])
        self._keys = 2 * KEYS if disk else KEYS
        tables = any_tables(rng, self._tables, 4, self._keys, disk=disk)
        sizes = {"frames": rng.choice([1, 2, 3, 6]), "plan_ahead": rng.choice([1, 2]),
                 "look_ahead": rng.choice([0, 1, 32])}
        self._saves = rng.choice([0.03, 0.1, 0.3]) if saves else 0.0
        self._cuts = 0.03 if saves else 1.0  # no step trains while one waits for a snapshot
        log_capacity = rng.choice([30, 6, 3, 1]) if saves else None
        self.sim = Sim(**tables, **sizes, capacity=18 + self._keys, log_capacity=log_capacity)
        self._wanted: Dict[Open, Set[int]] = {}
        self._fate = rng.choice([0.0, 0.002, 0.006] if saves else [0.0, 0.01, 0.03])
        self._is_inside = False
        self._serves_all = rng.random() < 0.5  # one worker has all tables, which take turns
        self.snapshots = self.images = self.kills = 0

    @property
    def waits(self) -> int:
        return sum(int(table.header["snapshot_waits"]) for table in self.sim.tables)

    def run(self) -> None:
        """Act for a while, then train what is left, and compare with the oracle."""
        actions = [self._submit, self._trainer, self._worker, self.sim.keys.step, self._cut, self._save, self._disk]
        for _ in range(900 if self._saves or self.sim.disks else 400):
            self._rng.choices(actions, [3, 3, 10, 3, 0.1 * self._cuts, 3 * self._saves, 10 * bool(self.sim.disks)])[0]()
            for index in self.sim.disks:
                check_tier(self.sim, index)
        self._train_the_rest()

    def _submit(self) -> None:
        rng = self._rng
        batches = [[rng.randrange(self._keys) for _ in range(rng.randrange(5))] for _ in range(self._tables)]
        batch = self.sim.submit(*batches, timestamp=self.sim.pump.next_ticket // 2)
        if batch is not None:
            self._wanted[batch] = set(rng.choice([range(self._tables), range(1), ()]))

    def _cut(self) -> None:
        """No step claims until it is applied."""
        ask_any_cut(self.sim, self._rng.randrange(self._tables), self._rng, self._keys)

    def _trainer(self) -> None:
        sim, rng = self.sim, self._rng
        if any(load.advance() for load in sim.loads.values()) or not sim.open or not all(
                sim.cut_is_applied(index) for index in range(self._tables)):
            return
        batch = sim.open[0] if rng.random() < 0.7 else rng.choice(sim.open)
        if self._wanted[batch] and rng.random() < 0.9:
            index = rng.choice(sorted(self._wanted[batch]))
            if sim.claim(batch, index):
                self._wanted[batch].discard(index)
        elif batch is sim.open[0] or not sim.ring.frames[batch.number % structs.MAX_FRAMES]["trained"]:
            sim.close(batch)

    def _disk(self) -> None:
        """The disk worker of a table takes requests, carries one out, or dies."""
        disk, rng = rng_choice(self._rng, self.sim.disks), self._rng
        if rng.random() < self._fate:
            disk.kill(rng)
        elif rng.random() < 0.4:
            disk.take()
        else:
            disk.end_one(rng)

    def _save(self) -> None:
        """Begin a snapshot, or go on with it."""
        index = self._rng.randrange(self._tables)
        snapshot = self.sim.snapshots.get(index)
        if snapshot is not None and not snapshot.is_over:
            snapshot.advance()
            self.images += snapshot.images if snapshot.is_over else 0
        elif may_begin(self.sim, index) and (self.sim.features[index] or self._rng.random() < 0.1):
            self.sim.begin_snapshot(index)
            self.snapshots += 1

    # ---- workers

    def _at(self, here: str) -> None:
        """A worker stands between two stores."""
        if self._is_inside:
            return
        if self._rng.random() < self._fate:
            raise Killed
        if self._rng.random() < 0.15:
            self._is_inside = True
            self._rng.choices([self._trainer, self._cut, self._save, self._disk],
                              [9, self._cuts, 9 * self._saves, 9 * bool(self.sim.disks)])[0]()
            self._is_inside = False

    def _worker(self) -> None:
        index = self._rng.randrange(self._tables)
        served = range(self._tables) if self._serves_all else [index]
        self._pauses.at = self._at
        try:
            if self._serves_all:
                self.sim.scheduler().step()
            else:
                self.sim.stages[index].act()
        except Killed:
            self.kills += 1
            for index in served:
                self._restart(index)
        finally:
            self._pauses.at = _go_on

    def _restart(self, index: int) -> None:
        """Start another worker, which may die as it starts."""
        if self._saves:
            try:
                self.sim.kill(index)
                return
            except Killed:
                self.kills += 1
        self._pauses.at = _go_on
        self.sim.kill(index)

    # ---- end

    def _train_the_rest(self) -> None:
        sim = self.sim
        for _ in range(1000):
            if not sim.open:
                break
            sim.work()
            batch = sim.open[0]
            if all(sim.claim(batch, index) for index in sorted(self._wanted[batch])
                   if sim.word(batch.number, index) <= PLANNED):
                sim.close(batch)
        sim.work()
        sim.pump.free_frames()
        if sim.ring.header["head"] != sim.ring.header["tail"]:
            raise AssertionError("frames are left: {}".format(sim.ring.header))
        if not all(snapshot.is_over for snapshot in sim.snapshots.values()):
            raise AssertionError("a snapshot is not over")
        for index in range(self._tables):
            sim.check(index)


def rng_choice(rng: random.Random, disks: Dict[int, SimDisk]) -> SimDisk:
    """Any of them."""
    return disks[rng.choice(sorted(disks))]


def _go_on(here: str) -> None:
    """No action is possible."""
