"""Plays the trainer in a load: asks for the cut, fills the granted table store by store, and publishes that."""
from typing import TYPE_CHECKING, Dict, Iterator, NamedTuple, Optional

from ascpipe.layout.words import CUT_LOAD, HOME_DISK, PLAN_OK, TRAINED
from ascpipe.tables import loads
from tests.support.sim_disk import OnDisk

if TYPE_CHECKING:
    from tests.support.pipeline_sim import Sim

_GARBAGE = 1 << 40  # a count that no table has


class Saved(NamedTuple):
    """What a checkpoint says of one key; ``updates`` of its row, None = it is only counted."""

    count: int
    time: int
    updates: Optional[int]


class Checkpoint(NamedTuple):
    """What a checkpoint says of one table.

    Attributes:
        keys: of each key.
        time: greatest timestamp.
        threshold, counting: of admission; -1 = there is none.
    """

    keys: Dict[int, Saved]
    time: int = 0
    threshold: int = -1
    counting: bool = True


class SimLoad:
    """One load of one table of a ``Sim``, from the request on.

    Args:
        sim: it.
        index: of the table.
        checkpoint: what is loaded.
        fails_after: stores after which the fill fails; None = it does not.

    Attributes:
        is_over: the cut is applied.
        status: PLAN_*; why it was refused.
    """

    def __init__(self, sim: "Sim", index: int, checkpoint: Checkpoint, fails_after: Optional[int] = None) -> None:
        self._sim, self._index, self._checkpoint, self._fails_after = sim, index, checkpoint, fails_after
        self._view = sim.tables[index]
        self._keys = sorted(checkpoint.keys.items(), key=lambda item: (item[1].updates is None, -item[0]))
        self.is_over, self.status = False, PLAN_OK
        self._stores: Optional[Iterator[bool]] = None
        header = self._view.header
        header["cut_rows"] = sum(saved.updates is not None for saved in checkpoint.keys.values())
        self._asked = sim.ask_cut(index, CUT_LOAD, len(checkpoint.keys))

    def advance(self) -> bool:
        """Do one store, or see what the worker did; False if it is the worker's turn, or all is over."""
        header = self._view.header
        if self.is_over:
            return False
        if header["cut_applied"] >= self._asked:
            self.is_over = True
            self.status = int(header["cut_status"])
            if self.status == PLAN_OK and self._stores is None:
                raise AssertionError("applied, but never granted")
            return True
        if self._stores is None:
            if header["cut_granted"] != self._asked:
                return False
            self._check_grant()
            self._sim.forget(self._index)
            self._stores = self._fill()
        return next(self._stores, False)

    def _check_grant(self) -> None:
        header = self._view.header
        if header["entries_used"] or (self._view.slot_entries >= 0).any():
            raise AssertionError("granted, and not empty: {}".format(header))
        at_home = min(int(header["cut_rows"]), len(self._view.homes))
        if header["entries_ready"] < len(self._keys) or header["homes_ready"] < at_home:
            raise AssertionError("granted without memory: {}".format(header))

    def _fill(self) -> Iterator[bool]:
        for stores, _ in enumerate(self._write()):
            if stores == self._fails_after:
                self._sim.forget(self._index)  # what lies there belongs to no key
                self._view.header["load_entries"] = loads.NOT_WRITTEN
                break
            yield True
        else:
            self._sim.remember(self._index, self._checkpoint)
        self._view.store("cut_filled", self._asked)
        yield True

    def _write(self) -> Iterator[None]:
        view, sim = self._view, self._sim
        at_home = bool(view.header["home_capacity"])
        rows = sim.home[self._index] if at_home else sim.device[self._index]
        for number, (key, saved) in enumerate(self._keys):
            place = number if saved.updates is not None else -1
            if at_home and place >= len(view.homes):
                place = HOME_DISK - (place - len(view.homes))
            entry = view.entries[number]
            entry["key"], entry["count"] = key, _GARBAGE
            entry["state"], entry["slot"], entry["home"] = TRAINED, number, number
            yield
            entry["count"], entry["timestamp"], entry["last"], entry["frequency"] = saved.count, saved.time, 0, 0
            entry["slot"], entry["home"] = (-1, place) if at_home else (place, -1)
            yield
        view.store("load_keyed", self._asked)
        yield
        for number, (key, saved) in enumerate(self._keys):
            if saved.updates is None:
                continue
            if at_home and number >= len(view.homes):
                sim.disks[self._index].rows[number - len(view.homes)] = OnDisk(
                    key, int(view.entries[number]["generation"]), saved.updates)
            else:
                rows[number] = (key, saved.updates)
            yield
        header, checkpoint = view.header, self._checkpoint
        header["load_time"] = checkpoint.time
        yield
        header["load_threshold"], header["load_counting"] = checkpoint.threshold, checkpoint.counting
        yield
        header["load_entries"] = len(self._keys)
        yield
