"""A ring and its tables in ordinary memory, with the pump and the trainer played in plain Python.

The workers' stages are the real ones.  ``Sim`` checks the contracts at every step: a claimed plan uses the
row of each key and no other, a batch is counted once, an unclaimed batch leaves no trace.
"""
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ascpipe.shm import layout
from ascpipe.shm.atomics import compare_exchange_u32, exchange_i64, exchange_u32
from ascpipe.shm.ring import PartView, Place, RingView, TableView
from ascpipe.tables.table import Table
from ascpipe.words import (
    ANSWERED,
    ASKED,
    CLAIMED,
    CUT_RESET,
    DEDUPED,
    DONE,
    EVAL,
    PLAN_OK,
    PLANNED,
    RETIRED,
    SUBMITTED,
    TRAIN,
    TRAINED,
)
from ascpipe.workers.eval_stage import EvalStage
from ascpipe.workers.key_worker import KeyStage
from ascpipe.workers.train_stage import Bells, TrainStage

Allocate = Callable[[int], np.ndarray]


def aligned(size: int) -> np.ndarray:
    """uint8[size], zeroed, on a cache line."""
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start:start + size]


def make_ring(tables: int, frames: int, arena_bytes: int, look_ahead: int = 32, plan_ahead: int = 2,
              channel: int = TRAIN, allocate: Allocate = aligned) -> RingView:
    """An empty ring as the supervisor makes it."""
    shape = layout.ring_shape(tables, arena_bytes)
    memory = allocate(shape.total_bytes)
    header = memory[:layout.RING.itemsize].view(layout.RING)[0]
    for name, value in (("channel", channel), ("frame_count", frames), ("table_count", tables),
                        ("look_ahead", look_ahead), ("plan_ahead", plan_ahead), ("arena_offset", shape.arena_offset),
                        ("arena_bytes", arena_bytes), ("frames_offset", shape.frames_offset),
                        ("tables_offset", shape.tables_offset)):
        header[name] = value
    ring = RingView(memory)
    ring.tables["table"] = np.arange(tables)
    return ring


def make_table(device_rows: int, capacity: int, allocate: Allocate = aligned, home_rows: int = 0, row_floats: int = 0,
               **fields: int) -> TableView:
    """An empty table as the supervisor makes it; ``fields`` are further ones of its header."""
    shape = layout.table_shape(device_rows, capacity, home_rows, row_floats)
    memory = allocate(shape.total_bytes)
    header = memory[:layout.TABLE.itemsize].view(layout.TABLE)[0]
    defaults = {"access_threshold": -1, "counting": 1, "faae_coefficient": 1, "eviction_threshold": -1}
    for name, value in {
            "device_rows": device_rows, "entry_capacity": capacity, "home_capacity": home_rows,
            "row_floats": row_floats, "slots_offset": shape.slots_offset, "entries_offset": shape.entries_offset,
            "home_offset": shape.home_offset, **defaults, **fields}.items():
        header[name] = value
    table = TableView(memory)
    table.slot_entries[:] = -1
    return table


FILLING = 0xFFFFFFFF  #: claim of a frame that the pump is filling


class Open(NamedTuple):
    """A submitted batch that the trainer knows."""

    ticket: int
    number: int
    keys: Tuple[Tuple[int, ...], ...]


class PlanError(Exception):
    """A plan that says why it is none."""

    def __init__(self, status: int, need: int) -> None:
        super().__init__(status, need)
        self.status, self.need = status, need


class SimRing:
    """The pump's end of one ring.

    Args:
        tables: how many tables it has.
        frames, arena_bytes, look_ahead, plan_ahead, channel: of the ring.
    """

    def __init__(self, tables: int, frames: int, arena_bytes: int, look_ahead: int = 32, plan_ahead: int = 2,
                 channel: int = TRAIN, allocate: Allocate = aligned) -> None:
        self.ring = make_ring(tables, frames, arena_bytes, look_ahead, plan_ahead, channel, allocate)
        self.next_ticket = 1

    def submit(self, *keys: Sequence[int]) -> Optional[Open]:
        """Put one batch into a frame; None if there is no room."""
        self.free_frames()
        header = self.ring.header
        need = layout.frame_bytes(tuple((len(k), 1) for k in keys))
        start, size = int(header["arena_tail"]), int(header["arena_bytes"])
        if start % size + need > size:
            start += size - start % size
        if header["tail"] - header["head"] >= header["frame_count"] or start + need - header["arena_head"] > size:
            return None
        number = int(header["tail"])
        frame = self.frame(number)
        offset = int(header["arena_offset"]) + start % size
        frame["claim"] = FILLING
        frame["number"], frame["ticket"], frame["offset"], frame["length"] = number, self.next_ticket, offset, need
        frame["closed"] = frame["trained"] = 0
        place = len(keys) * layout.PART.itemsize
        for index, part_keys in enumerate(keys):
            part = self.ring.part(number, index)
            part.fields[:] = 0
            part["id_count"], part["spec_count"], part["specs"] = len(part_keys), 1, place
            place += layout.SPEC.itemsize
            for name, width in layout.PART_ARRAYS:
                part[name] = place
                place += layout.align(width * len(part_keys))
            part.array("ids", len(part_keys))[:] = part_keys
            self.ring.words[self.ring.word_index(index, number)] = SUBMITTED
        frame["claim"] = 0
        header["arena_tail"] = start + need
        exchange_i64(self.ring.longs, layout.RING.fields["tail"][1] // 8, number + 1)
        self.next_ticket += 1
        return Open(int(frame["ticket"]), number, tuple(tuple(k) for k in keys))

    def free_frames(self) -> None:
        """Give back the closed frames at the head that every table has acknowledged."""
        header = self.ring.header
        while header["head"] < header["tail"]:
            number = int(header["head"])
            if not self.frame(number)["closed"]:
                return
            if any(self.word(number, index) != RETIRED for index in range(self.ring.table_count)):
                return
            header["arena_head"] = self._arena_position(number + 1)
            header["head"] = number + 1

    def clear_claims(self, generation: int) -> None:
        """What the supervisor does after it has reaped a key worker."""
        claims, words = self.ring.frames["claim"], self.ring.tables["words"]
        for place in range(layout.MAX_FRAMES):
            if (words[:, place] == SUBMITTED).any() and claims[place] == generation:
                claims[place] = 0

    def frame(self, number: int) -> np.ndarray:
        return self.ring.frames[number % layout.MAX_FRAMES]

    def word(self, number: int, index: int) -> int:
        return int(self.ring.words[self.ring.word_index(index, number)])

    def _arena_position(self, number: int) -> int:
        """Ever-growing position of a frame, or of the next one if it does not exist yet."""
        header = self.ring.header
        tail = int(header["arena_tail"])
        if number == header["tail"]:
            return tail
        here = int(self.frame(number)["offset"] - header["arena_offset"])
        return tail - (tail - here) % int(header["arena_bytes"])


class Sim:
    """A training stream and an evaluation stream over some tables.

    Args:
        device_rows: per table.
        capacity: entries per table.
        frames: of each ring.
        arena_bytes: of each ring.
        look_ahead, plan_ahead: L and P.
    """

    def __init__(self, device_rows: Sequence[int], capacity: int = 64, frames: int = 4, arena_bytes: int = 1 << 16,
                 look_ahead: int = 32, plan_ahead: int = 2, allocate: Allocate = aligned) -> None:
        count = len(device_rows)
        self.pump = SimRing(count, frames, arena_bytes, look_ahead, plan_ahead, allocate=allocate)
        self.eval_pump = SimRing(count, frames, arena_bytes, channel=EVAL, allocate=allocate)
        self.ring = self.pump.ring
        self.tables = [make_table(rows, capacity, allocate) for rows in device_rows]
        self.open: List[Open] = []
        self.device: List[Dict[int, Tuple[int, int]]] = [{} for _ in device_rows]  # slot -> (key, updates)
        self.updates: List[Dict[int, int]] = [{} for _ in device_rows]  # oracle: key -> updates of its row
        self.counts: List[Dict[int, int]] = [{} for _ in device_rows]  # oracle: key -> occurrences
        self.start_workers()

    def _start(self, index: int, restart: bool) -> None:
        """Start a table worker's stages for one table."""
        bells = Bells(lambda: None, lambda: None)
        view = self.tables[index]
        table = Table(view.entries, view.entries32, view.slot_entries)
        train = TrainStage(view, table, Place(self.ring, index), bells, restart=restart)
        self.stages[index] = train
        self.eval_stages[index] = EvalStage(table, Place(self.eval_pump.ring, index), train.is_readable, bells)

    def start_workers(self) -> None:
        """Start the stages that play the workers, in this process."""
        self.keys = KeyStage(self.ring, 7, [])
        self.eval_keys = KeyStage(self.eval_pump.ring, 7, [])
        self.stages: Dict[int, TrainStage] = {}
        self.eval_stages: Dict[int, EvalStage] = {}
        for index in range(len(self.tables)):
            self._start(index, restart=False)

    def submit(self, *keys: Sequence[int]) -> Optional[Open]:
        """Put one training batch into a frame; None if there is no room."""
        batch = self.pump.submit(*keys)
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
        if self.word(batch.number, index) != PLANNED:
            self.ring.longs[self.ring.table_field_index(index, "wanted")] = batch.ticket
            return False
        part = self.ring.part(batch.number, index)
        finished = self.ring.table_field_index(index, "finished")
        if part["base"] != self.ring.longs[finished]:
            return False
        head = int(self.ring.header["head"])
        for number in range(head, batch.number):
            closed = self.ring.frames[number % layout.MAX_FRAMES]["closed"]
            if not closed and self.word(number, index) < DONE:
                return False
        if part["status"] != PLAN_OK:
            raise PlanError(part["status"], part["need"])
        word = self.ring.word_index(index, batch.number)
        if not compare_exchange_u32(self.ring.words, word, PLANNED, CLAIMED):
            return False
        self.ring.frames[batch.number % layout.MAX_FRAMES]["trained"] = 1
        self._move(batch, index, part)
        self.ring.longs[finished] = batch.ticket
        exchange_u32(self.ring.words, word, DONE)
        return True

    def _move(self, batch: Open, index: int, part: PartView) -> None:
        n = part["unique_count"]
        unique, slots = part.array("unique", n), part.array("slots", n)
        device, updates = self.device[index], self.updates[index]
        for at in part.array("move_in", part["fresh_count"]):
            key = int(unique[at])
            if key in updates:
                raise AssertionError("the row of key {} is made anew".format(key))
            old = device.get(int(slots[at]))
            if old is not None and old[0] in updates:
                raise AssertionError("the row of key {} is overwritten".format(old[0]))
            device[int(slots[at])] = (key, 0)
            updates[key] = 0
        seen = set()
        for key, slot in zip(unique.tolist(), slots.tolist()):
            if device.get(slot) != (key, updates.get(key)):
                raise AssertionError("slot {} of key {} holds {}".format(slot, key, device.get(slot)))
            device[slot] = (key, updates[key] + 1)
            updates[key] += 1
            seen.add(slot)
        if len(seen) != n or sorted(set(batch.keys[index])) != sorted(unique.tolist()):
            raise AssertionError("batch {} got keys {} slots {}".format(batch, unique, slots))
        self._count(batch.keys[index], index)

    def _count(self, keys: Tuple[int, ...], index: int) -> None:
        for key in keys:
            if key in self.updates[index]:
                self.counts[index][key] = self.counts[index].get(key, 0) + 1

    def close(self, batch: Open) -> None:
        """Nobody can train the batch any more; tables that did not claim it count it if another one did."""
        frame = self.ring.frames[batch.number % layout.MAX_FRAMES]
        if frame["trained"]:
            for index in range(len(self.tables)):
                if self.word(batch.number, index) < CLAIMED:
                    self._count(batch.keys[index], index)
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
        at = self.eval_pump.ring.word_index(index, batch.number)
        if self.eval_pump.ring.words[at] != expected:
            raise AssertionError("word {} instead of {}".format(self.eval_pump.ring.words[at], expected))
        self.eval_pump.ring.words[at] = word

    # ---- cuts

    def ask_reset(self, index: int) -> None:
        """Ask for a reset; the table is empty for the oracle from here on."""
        header = self.tables[index].header
        header["cut_kind"] = CUT_RESET
        header["cut_asked"] = header["cut_asked"] + 1
        self.updates[index].clear()
        self.counts[index].clear()

    def reset_is_applied(self, index: int) -> bool:
        return bool(self.tables[index].header["cut_applied"] == self.tables[index].header["cut_asked"])

    # ---- workers

    def work(self) -> None:
        """Let every worker do all it can."""
        stages = (self.keys, self.eval_keys, *self.stages.values(), *self.eval_stages.values())
        while any(stage.step() for stage in stages):
            pass

    def train(self, *keys: Sequence[int]) -> Open:
        """Submit, claim for every table, close, retire."""
        batch = self.submit(*keys)
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
        view = self.tables[index]
        state = {}
        for entry in range(len(view.entries)):
            if view.entries32[entry, 9] == TRAINED:
                key, slot = int(view.entries[entry, 0]), int(view.entries32[entry, 8])
                if key in state or view.slot_entries[slot] != entry:
                    raise AssertionError("key {} stands twice, or its slot {} is not its own".format(key, slot))
                state[key] = (int(view.entries[entry, 1]), slot)
        return state

    def check(self, index: int) -> None:
        """Truth equals the oracle; only when everything is closed and retired."""
        state = self.trained_state(index)
        if {key: count for key, (count, _) in state.items()} != self.counts[index]:
            raise AssertionError("truth counts {}, oracle {}".format(state, self.counts[index]))
        for key, (_, slot) in state.items():
            if self.device[index][slot] != (key, self.updates[index][key]):
                raise AssertionError("row of key {} is {}".format(key, self.device[index][slot]))
        if self.tables[index].header["rows"] != len(state):
            raise AssertionError("rows {} of {}".format(self.tables[index].header["rows"], len(state)))
        used = self.tables[index].slot_entries
        if int((used >= 0).sum()) != len(state):
            raise AssertionError("slots in use {} of {}".format(used, len(state)))
