"""Plays the trainer in a snapshot: copies a table's entries block by block, and puts the images over its copy."""
from typing import TYPE_CHECKING, Dict, Tuple

import numpy as np

from ascpipe.layout import structs
from ascpipe.layout.words import CLAIMED, DONE, RETIRED, TRAINED

if TYPE_CHECKING:
    from tests.support.pipeline_sim import Sim


def may_begin(sim: "Sim", index: int) -> bool:
    """Whether a hold would be given now, and the last snapshot and the last cut are over."""
    head, tail = int(sim.ring.header["head"]), int(sim.ring.header["tail"])
    for number in range(head, tail):
        frame, word = sim.ring.frames[number % structs.MAX_FRAMES], sim.word(number, index)
        if word in (CLAIMED, DONE) or (frame["trained"] and (not frame["closed"] or word < RETIRED)):
            return False
    last = sim.snapshots.get(index)
    return (last is None or last.is_over) and sim.cut_is_applied(index)


class SimSnapshot:
    """One snapshot of one table of a ``Sim``, from its begin on.

    Args:
        sim, index: which.
        block: entries that are copied at once.

    Attributes:
        is_over: it is made, and equals what there was when it began.
        images: how many of them were laid over the copy.
    """

    def __init__(self, sim: "Sim", index: int, block: int) -> None:
        if not may_begin(sim, index):
            raise AssertionError("no hold is given now")
        self._view, self._block = sim.tables[index], block
        header = self._view.header
        self._bound = int(header["entries_used"])
        self._true = _trained(self._view.entries[:self._bound])
        if set(self._true) != set(sim.features[index]):
            raise AssertionError("keys {}, oracle {}".format(set(self._true), set(sim.features[index])))
        self._copy = np.zeros(self._bound, structs.ENTRY)
        self._next = self.images = 0
        self.is_over = False
        header["snapshot_bound"] = self._bound
        header["snapshot_copied"] = header["snapshot_logged"] = 0
        self._view.store("snapshot_asked", int(header["snapshot_asked"]) + 1)

    def advance(self) -> bool:
        """Copy a block, or say that it is copied, or finish; False if all is over."""
        if self.is_over:
            return False
        copied = int(self._view.header["snapshot_copied"])
        if self._next == copied < self._bound:
            self._next = min(self._bound, copied + self._block)
            self._copy[copied:self._next] = self._view.entries[copied:self._next]
        elif copied < self._next:
            self._view.store("snapshot_copied", self._next)
        else:
            self._finish()
        return True

    def _finish(self) -> None:
        self.images = self._view.load("snapshot_logged")
        log = self._view.log[:self.images]
        numbers = log["entry"].tolist()
        if len(set(numbers)) != self.images or max(numbers, default=-1) >= self._bound:
            raise AssertionError("two images of an entry, or of none of {}: {}".format(self._bound, numbers))
        for field in structs.ENTRY.names:
            self._copy[field][log["entry"]] = log[field]
        made = _trained(self._copy)
        if made != self._true:
            raise AssertionError("the snapshot has {}, it began with {}".format(made, self._true))
        self.is_over = True


def _trained(entries: np.ndarray) -> Dict[int, Tuple[int, ...]]:
    """key -> the whole entry, of those with trained state."""
    return {int(entry["key"]): entry.item() for entry in entries[entries["state"] == TRAINED]}
