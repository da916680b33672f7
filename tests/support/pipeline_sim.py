"""Plays the pump and the trainer in plain Python, over a ring and its tables in ordinary memory.

The workers' stages are the real ones.  ``Sim`` checks the contracts at every step: a claimed plan uses the
row of each key and no other, a batch is counted once, an unclaimed batch leaves no trace.
"""
from typing import Dict, List, Optional, Sequence, Tuple

from ascpipe.kernels.hashing import Spread, spread_of
from ascpipe.layout import structs
from ascpipe.layout.words import (
    ANSWERED,
    ASKED,
    CLAIMED,
    CUT_EVICT,
    CUT_RESET,
    CUT_THRESHOLD,
    DEDUPED,
    DONE,
    EVAL,
    HOME_DISK,
    PLAN_OK,
    PLANNED,
    SLOT_HOME,
)
from ascpipe.shm.ring import PartView, TableInRing
from ascpipe.tables.table import Table
from ascpipe.workers.eval_stage import EvalStage
from ascpipe.workers.key_worker import KeyStage
from ascpipe.workers.ring_scheduler import RingScheduler
from ascpipe.workers.stage import Bells, truth_of
from ascpipe.workers.train_stage import TrainStage
from tests.support.replayed_table import ReplayedTable
from tests.support.sim_disk import SimDisk
from tests.support.sim_load import Checkpoint, SimLoad
from tests.support.sim_ring import Allocate, Home, Open, PlanError, SimRing, aligned, make_table, truth_of_table
from tests.support.sim_snapshot import SimSnapshot
from tests.support.stepwise import no_listeners


class Feature:
    """What the oracle knows of a key with trained state; ``updates`` of its row, None = it has none."""

    def __init__(self) -> None:
        self.count = self.time = 0
        self.updates: Optional[int] = None


class Sim:
    """A training stream and an evaluation stream over some tables.

    Args:
        device_rows: per table.
        capacity: entries per table.
        frames: of each ring.
        arena_bytes: of each ring.
        look_ahead, plan_ahead: L and P.
        homes: per table; none = all live on the device alone.
        log_capacity: images per table; one for each entry by default.
    """

    def __init__(self, device_rows: Sequence[int], capacity: int = 64, frames: int = 4, arena_bytes: int = 1 << 16,
                 look_ahead: int = 32, plan_ahead: int = 2, allocate: Allocate = aligned,
                 homes: Sequence[Home] = (), log_capacity: Optional[int] = None) -> None:
        count = len(device_rows)
        self._seed = 0
        self.pump = SimRing(count, frames, arena_bytes, look_ahead, plan_ahead, allocate=allocate)
        self.eval_pump = SimRing(count, frames, arena_bytes, channel=EVAL, allocate=allocate)
        self.ring = self.pump.ring
        self.homes = list(homes) or [Home()] * count
        self.tables = [
            make_table(rows, capacity, allocate, home.rows, home.floats if home.rows else 0, home.disk,
                       access_threshold=home.threshold, faae_coefficient=home.coefficient,
                       log_capacity=capacity if log_capacity is None else log_capacity)
            for rows, home in zip(device_rows, self.homes)]
        self.open: List[Open] = []
        self.device: List[Dict[int, Tuple[int, int]]] = [{} for _ in device_rows]  # slot -> (key, updates)
        self.home: List[Dict[int, Tuple[int, int]]] = [{} for _ in device_rows]  # home row -> (key, updates)
        self.features: List[Dict[int, Feature]] = [{} for _ in device_rows]  # oracle: keys with trained state
        self.times = [0] * count
        self.thresholds = [home.threshold for home in self.homes]
        self.counting = [True] * count
        self.disks = {index: SimDisk(self, index) for index, home in enumerate(self.homes) if home.disk}
        self.loads: Dict[int, SimLoad] = {}  # the last one of each table
        self.snapshots: Dict[int, SimSnapshot] = {}  # the last one of each table
        self.start_workers()

    def next_spread(self) -> Spread:
        """For one that starts: another one each time, as nothing may depend on it."""
        self._seed += 1
        return spread_of(self._seed)

    def _start(self, index: int, restart: bool) -> None:
        """Start a table worker's stages for one table."""
        bells = Bells(lambda: None, lambda: None)
        view = self.tables[index]
        table = Table(truth_of(view), self.next_spread()) if index in self.disks else ReplayedTable(self, index)
        train = self.trains[index] = TrainStage(view, table, TableInRing(self.ring, index), bells, restart=restart)
        self.stages[index] = RingScheduler(self.ring, [index], [train], no_listeners(disk=index in self.disks))
        self.eval_stages[index] = EvalStage(
            table.resolve, TableInRing(self.eval_pump.ring, index), train.is_readable, bells)

    def start_workers(self) -> None:
        """Start the stages that play the workers, in this process."""
        self.keys = KeyStage(self.ring, 7, no_listeners(), self.next_spread())
        self.eval_keys = KeyStage(self.eval_pump.ring, 7, no_listeners(), self.next_spread())
        self.trains: Dict[int, TrainStage] = {}
        self.stages: Dict[int, RingScheduler] = {}  # each of one table
        self.eval_stages: Dict[int, EvalStage] = {}
        for index in range(len(self.tables)):
            self._start(index, restart=False)

    def submit(self, *keys: Sequence[int], timestamp: int = 0) -> Optional[Open]:
        """Put one training batch into a frame; None if there is no room."""
        batch = self.pump.submit(*keys, timestamp=timestamp)
        if batch is not None:
            self.open.append(batch)
        return batch

    def word(self, number: int, index: int) -> int:
        return self.pump.word(number, index)

    def kill(self, index: int) -> None:
        """Forget everything private of a table worker and start another one."""
        self._start(index, restart=True)

    # ---- trainer

    def claim(self, batch: Open, index: int) -> bool:
        """Claim a batch for a table and finish it; False if that must wait."""
        if not self.take(batch, index):
            return False
        self.ring.frames[batch.number % structs.MAX_FRAMES]["trained"] = 1
        self._move(batch, index, self.ring.part(batch.number, index))
        self.ring.store_finished(index, batch.ticket)
        self.ring.store_word(batch.number, index, DONE)
        return True

    def take(self, batch: Open, index: int) -> bool:
        """Claim a batch for a table, and no more; False if that must wait."""
        if self.word(batch.number, index) != PLANNED:
            self.ring.tables["wanted"][index] = batch.ticket
            return False
        part = self.ring.part(batch.number, index)
        if part["base"] != self.ring.finished(index):
            return False
        for number in range(int(self.ring.header["head"]), batch.number):
            if not self.ring.frame(number)["closed"] and self.word(number, index) < DONE:
                return False
        if part["status"] != PLAN_OK:
            raise PlanError(part["status"], part["need"])
        return self.ring.replace_word(batch.number, index, PLANNED, CLAIMED)

    def _move(self, batch: Open, index: int, part: PartView) -> None:
        """What the plan op does, and one update of each row; every place is checked against its owner."""
        n, fresh, loads = part["unique_count"], part["fresh_count"], part["load_count"]
        unique, slots, homes = (part.array(name, n).tolist() for name in ("unique", "slots", "homes"))
        move_in = part.array("move_in", fresh + loads).tolist()
        device, home, features = self.device[index], self.home[index], self.features[index]
        self._count(batch, index, claimed=True)
        for slot, row in zip(part.array("out_slots", part["out_count"]).tolist(),
                             part.array("out_homes", part["out_count"]).tolist()):
            key, updates = device.pop(slot)
            if home[row][0] != key:
                raise AssertionError("key {} goes to home row {} of key {}".format(key, row, home[row][0]))
            home[row] = (key, updates)
        for turn, at in enumerate(move_in):
            key, slot, row = unique[at], slots[at], homes[at]
            updates = 0
            if turn < fresh:
                if features[key].updates is not None or (row in home and index not in self.disks):
                    raise AssertionError("key {} gets a new row, home row {}".format(key, row))
                features[key].updates = 0
                if row >= 0:
                    home[row] = (key, 0)
            else:
                owner, updates = home[row]
                if owner != key:
                    raise AssertionError("home row {} of key {} is key {}'s".format(row, key, owner))
            if slot >= 0:
                if slot in device:
                    raise AssertionError("the row of key {} is overwritten".format(device[slot][0]))
                device[slot] = (key, updates)
        rows, places = (device, slots) if self._has_slots(index) else (home, homes)
        for key, place in zip(unique, places):
            feature = features.get(key)
            if not self._is_admitted(index, feature):
                if place != -1:
                    raise AssertionError("key {} is not admitted and uses {}".format(key, place))
                continue
            if rows.get(place) != (key, feature.updates):
                raise AssertionError("place {} of key {} holds {}, not {}".format(
                    place, key, rows.get(place), feature.updates))
            feature.updates += 1
            rows[place] = (key, feature.updates)
        used = [place for place in places if place >= 0]
        if len(set(used)) != len(used) or sorted(set(batch.keys[index])) != sorted(unique):
            raise AssertionError("batch {} got keys {} places {}".format(batch, unique, places))
        if part["admitted"] != len(used):
            raise AssertionError("{} admitted of {}".format(part["admitted"], used))

    def _has_slots(self, index: int) -> bool:
        return bool(self.tables[index].header["device_rows"])

    def _is_admitted(self, index: int, feature: Optional[Feature]) -> bool:
        threshold = self.thresholds[index]
        return threshold < 0 or (feature.count if feature else 0) >= threshold

    def _count(self, batch: Open, index: int, *, claimed: bool) -> None:
        features, admission = self.features[index], self.thresholds[index] >= 0
        self.times[index] = max(self.times[index], batch.timestamp)
        counts = self.counting[index] or not admission
        for key in batch.keys[index]:
            if key not in features and (claimed or admission) and (counts or self.thresholds[index] == 0 and claimed):
                features[key] = Feature()
            if key in features:
                features[key].count += self.homes[index].coefficient if counts else 0
                features[key].time = self.times[index]

    def close(self, batch: Open) -> None:
        """Close a batch, which can no longer be trained; tables that did not claim it count it if another one did."""
        frame = self.ring.frames[batch.number % structs.MAX_FRAMES]
        if frame["trained"]:
            for index in range(len(self.tables)):
                if self.word(batch.number, index) < CLAIMED:
                    self._count(batch, index, claimed=False)
        frame["closed"] = 1
        self.open.remove(batch)

    # ---- evaluation

    def evaluate(self, *keys: Sequence[int]) -> List[Dict[int, int]]:
        """Slots of the keys per table as an evaluation between two steps sees them; -1 = no row."""
        self.work()  # acknowledges the frames of earlier ones
        batch = self.eval_pump.submit(*keys)
        if batch is None:
            raise AssertionError("no room")
        self.work()
        answers = []
        for index in range(len(self.tables)):
            self._set_eval_word(batch, index, DEDUPED, ASKED)
        self.work()
        for index in range(len(self.tables)):
            part = self.eval_pump.ring.part(batch.number, index)
            n = part["unique_count"]
            self._set_eval_word(batch, index, ANSWERED, DONE)
            answers.append(dict(zip(part.array("unique", n).tolist(), part.array("slots", n).tolist())))
        self.close_eval(batch)
        return answers

    def ask(self, *keys: Sequence[int]) -> Open:
        """Submit an evaluation batch and ask for every table, without waiting for the answer."""
        batch = self.eval_pump.submit(*keys)
        if batch is None:
            raise AssertionError("no room")
        while self.eval_keys.step():
            pass
        for index in range(len(self.tables)):
            self._set_eval_word(batch, index, DEDUPED, ASKED)
        return batch

    def close_eval(self, batch: Open) -> None:
        self.eval_pump.frame(batch.number)["closed"] = 1

    def _set_eval_word(self, batch: Open, index: int, expected: int, word: int) -> None:
        found = self.eval_pump.word(batch.number, index)
        if found != expected:
            raise AssertionError("word {} instead of {}".format(found, expected))
        self.eval_pump.ring.store_word(batch.number, index, word)

    # ---- cuts

    def ask_reset(self, index: int) -> None:
        """Ask for a reset; the table is empty for the oracle from here on."""
        self.ask_cut(index, CUT_RESET, 0)
        self.forget(index)

    def ask_threshold(self, index: int, threshold: int) -> None:
        """Ask for another access threshold; 0 = stop counting."""
        self.ask_cut(index, CUT_THRESHOLD, threshold)
        if self.thresholds[index] >= 0:
            self.counting[index] = threshold > 0
            self.thresholds[index] = threshold or self.thresholds[index]

    def ask_eviction(self, index: int, age: int) -> None:
        """Ask for an eviction of all keys that are as old."""
        self.ask_cut(index, CUT_EVICT, age)
        features = self.features[index]
        for key in [key for key, feature in features.items() if self.times[index] - feature.time >= age]:
            del features[key]
        for rows in (self.device[index], self.home[index]):  # what lies there belongs to no key
            for place in [place for place, (key, _) in rows.items() if key not in features]:
                del rows[place]

    def ask_load(self, index: int, checkpoint: Checkpoint, fails_after: Optional[int] = None) -> SimLoad:
        """Ask for a load; ``work`` carries it out, or a test that calls its ``advance``."""
        self.loads[index] = SimLoad(self, index, checkpoint, fails_after)
        return self.loads[index]

    def forget(self, index: int) -> None:
        """The table is empty for the oracle."""
        for kept in (self.features, self.device, self.home):
            kept[index].clear()
        self.times[index] = 0

    def remember(self, index: int, checkpoint: Checkpoint) -> None:
        """The table is for the oracle what a checkpoint says; its rows are in their places already."""
        for key, saved in checkpoint.keys.items():
            feature = self.features[index][key] = Feature()
            feature.count, feature.time, feature.updates = saved
        self.times[index], self.thresholds[index] = checkpoint.time, checkpoint.threshold
        self.counting[index] = checkpoint.counting

    def begin_snapshot(self, index: int, block: int = 2) -> SimSnapshot:
        """Begin a snapshot, as an owner of the lease does; ``work`` copies, or a test that calls its ``advance``."""
        self.snapshots[index] = SimSnapshot(self, index, block)
        return self.snapshots[index]

    def ask_cut(self, index: int, kind: int, argument: int) -> int:
        """Ask for any cut; returns the id of the request."""
        header = self.tables[index].header
        header["cut_kind"], header["cut_argument"] = kind, argument
        header["cut_asked"] = header["cut_asked"] + 1
        return int(header["cut_asked"])

    def cut_is_applied(self, index: int) -> bool:
        return bool(self.tables[index].header["cut_applied"] == self.tables[index].header["cut_asked"])

    # ---- workers

    def scheduler(self) -> RingScheduler:
        """One worker's look at all tables; to be made anew after a kill."""
        return RingScheduler(self.ring, list(self.trains), list(self.trains.values()),
                             no_listeners(disk=bool(self.disks)))

    def work(self) -> None:
        """Let every worker do all it can, and every load and snapshot."""
        stages = (self.keys, self.eval_keys, *self.stages.values(), *self.eval_stages.values(), *self.disks.values())
        while any(stage.step() for stage in stages) or any(
                actor.advance() for actors in (self.loads, self.snapshots) for actor in actors.values()):
            pass

    def train(self, *keys: Sequence[int], timestamp: int = 0) -> Open:
        """Submit, claim for every table, close, retire."""
        batch = self.submit(*keys, timestamp=timestamp)
        if batch is None:
            raise AssertionError("no room")
        self.work()
        for index in range(len(self.tables)):
            if not self.claim(batch, index):
                raise AssertionError("table {} has no plan of {}".format(index, batch))
        self.close(batch)
        self.work()
        return batch

    def trained_state(self, index: int) -> Dict[int, Tuple[int, int]]:
        """key -> (count, slot) as the truth says."""
        return {key: (count, slot) for key, (count, _, slot, _) in self.truth(index).items()}

    def truth(self, index: int) -> Dict[int, Tuple[int, int, int, int]]:
        """key -> (count, timestamp, slot, home) of every key with trained state."""
        return truth_of_table(self.tables[index])

    def row_at(self, index: int, code: int) -> Optional[Tuple[int, int]]:
        """(key, updates) of the row that the answer to an evaluation names; None = there is none."""
        if code <= SLOT_HOME:
            return self.home[index][SLOT_HOME - code]
        return self.device[index][code] if code >= 0 else None

    def check_answers(self, index: int, answers: Dict[int, int]) -> None:
        """An evaluation finds the row of each admitted key as it is after the last step."""
        for key, code in answers.items():
            feature = self.features[index].get(key)
            has_row = feature is not None and feature.updates is not None and self._is_admitted(index, feature)
            if self.row_at(index, code) != ((key, feature.updates) if has_row else None):
                raise AssertionError("key {} is at {}: {}".format(key, code, self.row_at(index, code)))

    def check(self, index: int) -> None:
        """Truth equals the oracle; only when everything is closed and retired."""
        state, features, header = self.truth(index), self.features[index], self.tables[index].header
        if {key: row[:2] for key, row in state.items()} != {key: (f.count, f.time) for key, f in features.items()}:
            raise AssertionError("truth {}, oracle {}".format(
                state, {key: (f.count, f.time, f.updates) for key, f in features.items()}))
        for key, (_, _, slot, home) in state.items():
            row = self.device[index][slot] if slot >= 0 else self.home[index][home] if home >= 0 else None
            if home <= HOME_DISK:
                row = self.disks[index].find(HOME_DISK - home, key)
            updates = features[key].updates
            if row != (None if updates is None else (key, updates)) or (
                    home >= 0 and self.home[index][home][0] != key):
                raise AssertionError("row of key {} is {}, not {}".format(key, row, updates))
        rows = sum(feature.updates is not None for feature in features.values())
        if (header["rows"], header["time"]) != (rows, self.times[index]):
            raise AssertionError("rows {} of {}, time {} of {}".format(
                header["rows"], rows, header["time"], self.times[index]))
        used = self.tables[index].slot_entries
        if int((used >= 0).sum()) != sum(slot >= 0 for _, _, slot, _ in state.values()):
            raise AssertionError("slots in use {} of {}".format(used, state))
