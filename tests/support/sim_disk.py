"""Plays the disk worker of one table of a ``Sim``: a file of rows, requests under way, deaths."""
import random
from typing import TYPE_CHECKING, Dict, List, NamedTuple, Optional, Set, Tuple

import numpy as np

from ascpipe.layout import structs
from ascpipe.layout.words import (
    DONE,
    FREE,
    HOME_DISK,
    PLAN_OK,
    PLANNED,
    REQUEST_ASKED,
    REQUEST_DONE,
    REQUEST_EMPTY,
    REQUEST_FAILED,
    REQUEST_READ,
    REQUEST_TAKEN,
    TRAINED,
)

if TYPE_CHECKING:
    from tests.support.pipeline_sim import Sim


class OnDisk(NamedTuple):
    """What a disk slot has; of a torn one the key is None."""

    key: Optional[int]
    generation: int
    updates: int


class SimDisk:
    """The disk worker.

    Args:
        sim: it.
        index: of the table, which may have rows on disk.

    Attributes:
        rows: what each disk slot has that was ever written.
        reads, writes: rows so far.
        fails: writes that the disk is to refuse next.
    """

    def __init__(self, sim: "Sim", index: int) -> None:
        self._sim, self._index, self._table = sim, index, sim.tables[index].disk_table
        memory = sim.tables[index].memory
        asks, room = int(self._table["asks_offset"]), int(self._table["asks_room"])
        self._asks = memory[asks:asks + 4 * room].view(np.int32)
        requests, homes = int(self._table["requests_offset"]), int(sim.tables[index].header["home_capacity"])
        self.requests = memory[requests:requests + homes * structs.REQUEST.itemsize].view(structs.REQUEST)
        self.rows: Dict[int, OnDisk] = {}
        self.reads = self.writes = self.fails = 0
        self._doing: List[int] = []

    def take(self) -> bool:
        """Take what was asked; False if there is nothing."""
        asked, taken = int(self._table["asked"]), int(self._table["taken"])
        for position in range(taken, asked):
            home = int(self._asks[position % len(self._asks)])
            if self.requests[home]["word"] == REQUEST_ASKED:
                self.requests[home]["word"] = REQUEST_TAKEN
                self._doing.append(home)
        self._table["taken"] = asked
        return asked > taken

    def end_one(self, rng: Optional[random.Random] = None) -> bool:
        """Carry out one request, any of them if there is a generator; False if none is under way."""
        if not self._doing:
            return False
        home = self._doing.pop(rng.randrange(len(self._doing)) if rng else 0)
        request = self.requests[home]
        if request["word"] != REQUEST_TAKEN:
            raise AssertionError("request {} is {} while the disk worker is at it".format(home, request))
        request["word"] = REQUEST_DONE if self._carry_out(home) else REQUEST_FAILED
        return True

    def step(self) -> bool:
        """Do all that is asked; False if there is nothing."""
        self.take()
        done = 0
        while self.end_one():
            done += 1
        return done > 0

    def kill(self, rng: random.Random) -> None:
        """Die, and let a successor do again what is ASKED; writes that were under way may be torn, or done."""
        for home in self._doing:
            request = self.requests[home]
            if request["kind"] != REQUEST_READ and rng.random() < 0.5:
                self._carry_out(home)
                if rng.random() < 0.5:
                    self.rows[int(request["slot"])] = OnDisk(None, 0, 0)
        self._table["taken"] = self._table["asked"]
        self._doing = [int(home) for home in np.flatnonzero(
            (self.requests["word"] == REQUEST_ASKED) | (self.requests["word"] == REQUEST_TAKEN))]
        self.requests["word"][self._doing] = REQUEST_TAKEN

    def find(self, slot: int, key: int) -> Tuple[int, int]:
        """(key, updates) of the row in a disk slot, as the entry of the key says that it lies there."""
        view, found = self._sim.tables[self._index], self.rows.get(slot)
        known = view.entries[:int(view.header["entries_used"])]
        (generation,) = known[(known["key"] == key) & (known["state"] == TRAINED)]["generation"].tolist()
        if found is None or (found.key, found.generation) != (key, generation):
            raise AssertionError("disk slot {} has {}, not key {} of generation {}".format(
                slot, found, key, generation))
        return key, found.updates

    def _carry_out(self, home: int) -> bool:
        request, rows = self.requests[home], self._sim.home[self._index]
        key, slot, generation = (int(request[field]) for field in ("key", "slot", "generation"))
        if request["kind"] == REQUEST_READ:
            self.reads += 1
            found = self.rows.get(slot)
            if found is None or (found.key, found.generation) != (key, generation):
                return False
            rows[home] = (key, found.updates)
            return True
        self.writes += 1
        if self.fails:
            self.fails -= 1
            if self.fails % 2:
                return False
        self.rows[slot] = OnDisk(key, generation, rows[home][1] if rows.get(home, (None, 0))[0] == key else -1)
        return self.fails == 0 or self.fails % 2 == 0


def check_tier(sim: "Sim", index: int) -> None:
    """Each home row and disk slot has one owner: an entry, a record, or a request."""
    view, ring = sim.tables[index], sim.ring
    entries = view.entries[:int(view.header["entries_used"])]
    homes: Dict[int, Set[str]] = {}
    slots: Dict[int, Set[str]] = {}
    for number, known in enumerate(entries):
        if known["state"] != FREE and known["home"] >= 0:
            homes.setdefault(int(known["home"]), set()).add("entry {}".format(number))
        elif known["state"] != FREE and known["home"] <= HOME_DISK:
            slots.setdefault(int(HOME_DISK - known["home"]), set()).add("entry {}".format(number))
    for frame in range(int(ring.header["head"]), int(ring.header["tail"])):
        part = ring.part(frame, index)
        if PLANNED <= sim.word(frame, index) <= DONE and part["status"] == PLAN_OK and part["full"]:
            for entry, home in zip(part.array("entries", part["held"]).tolist(), part.array("homes", part["held"])):
                if home >= 0:
                    homes.setdefault(int(home), set()).add("entry {}".format(entry))
    for home, request in enumerate(sim.disks[index].requests):
        if request["word"] == REQUEST_EMPTY:
            continue
        known, of = view.entries[request["entry"]], "entry {}".format(request["entry"])
        if request["kind"] == REQUEST_READ:
            place = (HOME_DISK - request["slot"], request["generation"])
            counts = (known["home"], known["generation"]) == place or known["home"] == home
            homes.setdefault(home, set()).add(of if counts else "request {}".format(home))
        else:
            stored = (known["home"], known["generation"]) == (HOME_DISK - request["slot"], request["generation"])
            slots.setdefault(int(request["slot"]), set()).add(of if stored else "request {}".format(home))
    for what, owners in (("home row", homes), ("disk slot", slots)):
        for place, of in owners.items():
            if len(of) > 1:
                raise AssertionError("{} {} has two owners: {}".format(what, place, sorted(of)))
