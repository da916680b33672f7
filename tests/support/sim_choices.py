"""Draws what a random schedule needs for a ``Sim``: its tables, a checkpoint, a cut."""
import random
from typing import Any, Dict

from ascpipe.layout import structs
from tests.support.pipeline_sim import Sim
from tests.support.sim_load import Checkpoint, Saved
from tests.support.sim_ring import Home


def any_tables(rng: random.Random, count: int, batch_keys: int, all_keys: int, *, disk: bool = False) -> Dict[str, Any]:
    """Arguments of ``Sim``: tables of any kind with room for batches of ``batch_keys`` out of ``all_keys``.

    With ``disk`` those with home rows have as few of these as they may.
    """
    device_rows, homes = [], []
    for _ in range(count):
        kind = rng.choice(["host", "host", "expansion"] if disk else ["device", "host", "host", "expansion"])
        rows = {"device": all_keys, "host": rng.choice([batch_keys, batch_keys + 2, 2 * batch_keys]), "expansion": 0}
        device_rows.append(rows[kind])
        home = Home(0 if kind == "device" else all_keys, rng.choice([-1, -1, 0, 2, 3]), rng.choice([1, 1, 2]))
        if disk:
            home = home._replace(rows=device_rows[-1] + batch_keys + rng.choice([0, 1, 3]), disk=all_keys)
        homes.append(home)
    return {"device_rows": device_rows, "homes": homes}


def ask_any_cut(sim: Sim, index: int, rng: random.Random, all_keys: int) -> None:
    """Ask for a cut, as an owner of the lease does: not within a step, nor before the last one is applied.

    Args:
        sim, index: of which table.
        rng: chooses.
        all_keys: a load has some of this many keys.
    """
    trained = any(sim.ring.frames[batch.number % structs.MAX_FRAMES]["trained"] for batch in sim.open)
    if not trained and sim.cut_is_applied(index):
        rng.choice([
            lambda: sim.ask_reset(index), lambda: sim.ask_threshold(index, rng.choice([0, 1, 2, 4])),
            lambda: sim.ask_eviction(index, rng.choice([0, 1, 5, 20])),
            lambda: sim.ask_load(index, any_checkpoint(sim, index, rng, all_keys),
                                 rng.choice([None, None, rng.randrange(30)]))])()


def any_checkpoint(sim: Sim, index: int, rng: random.Random, all_keys: int) -> Checkpoint:
    """What a table like this one may have become elsewhere."""
    admission, time = sim.thresholds[index] >= 0, rng.choice([0, 3, 30])
    threshold = rng.choice([0, 1, 2, 4]) if admission else -1
    keys = {}
    for key in rng.sample(range(all_keys), rng.randrange(all_keys + 1)):
        count = rng.randrange(1, 6)
        updates = rng.randrange(9) if not admission or count >= threshold or rng.random() < 0.3 else None
        keys[key] = Saved(count, rng.randrange(time + 1), updates)
    return Checkpoint(keys, time, threshold, rng.random() < 0.8 or not admission)
