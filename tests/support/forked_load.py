"""Fills a load while workers are killed: a pure function of the script, with rows of real numbers."""
import random
from typing import TYPE_CHECKING, Iterator

import numpy as np

from tests.support.kill_script import FLOATS, KEYS
from tests.support.sim_load import Checkpoint, Saved, SimLoad

if TYPE_CHECKING:
    from tests.support.forked_sim import ForkedSim

_MOST = 12  #: keys of a checkpoint


def checkpoint(seed: int, newest: int, admission: bool) -> Checkpoint:
    """What a table may have become elsewhere: some of the keys that are, or were, popular.

    Args:
        seed: decides.
        newest: greatest key.
        admission: whether the table has an access threshold.
    """
    rng = random.Random(seed)
    time, threshold, keys = rng.choice([0, 3, 30]), rng.choice([0, 1, 2, 4]) if admission else -1, {}
    for key in rng.sample(range(newest - KEYS // 10, newest + 1), rng.randrange(_MOST + 1)):
        count = rng.randrange(1, 6)
        has_row = not admission or count >= threshold or rng.random() < 0.3
        keys[key] = Saved(count, rng.randrange(time + 1), 0 if has_row else None)
    return Checkpoint(keys, time, threshold, rng.random() < 0.8 or not admission)


class ForkedLoad(SimLoad):
    """A load of a ``ForkedSim``, whose rows are written too.

    Args:
        sim: it.
        index: of the table.
        checkpoint: what is loaded.
        seed: of the rows.
    """

    def __init__(self, sim: "ForkedSim", index: int, checkpoint: Checkpoint, seed: int) -> None:
        self._forked, self._seed = sim, seed
        super().__init__(sim, index, checkpoint)

    def _write(self) -> Iterator[None]:
        at_home = bool(self._view.header["home_capacity"])
        rows = self._view.homes if at_home else self._forked.rows[self._index]
        numbers = np.random.RandomState(self._seed)
        for number in range(int(self._view.header["cut_rows"])):
            rows[number] = numbers.uniform(0.1, 1.0, FLOATS).astype(np.float32)
            yield
        yield from super()._write()
