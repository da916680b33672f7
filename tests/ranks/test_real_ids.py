"""Real ids, a table for each of their fields: ranks train what one rank trains, whatever is killed."""
import numpy as np
import pytest

from tests.ranks.test_exactness import require_equal, same
from tests.support import ranked_runs, traces
from tests.support.several_ranks import needs_horovod

pytestmark = [needs_horovod, pytest.mark.timeout_s(590)]

BATCH = 192  # lines, of any number of ranks up to four
STEPS = 35
#: Rows of a rank, and of all of them: a batch's keys, and somewhat more of them that one rank of four may own.
SMALL_DEVICE = BATCH * 3 // 2
OPTIMIZERS = ("adagrad", "lazy_adam", "gradient_descent", "ftrl")
ALL = ["criteo", traces.GENERATED]


def case_of(folder, name, host=False, **more):
    """A table and a feature for each field of a trace; on the device are all rows, or those of a batch."""
    ids = traces.read(name)
    path = folder / "{}.npy".format(name)
    if not path.exists():
        np.save(str(path), np.concatenate([np.random.RandomState(3).randint(0, 2, (len(ids), 1)), ids], axis=1))
    tables, features = {}, {}
    for field in range(ids.shape[1]):
        rows = 2 * len(np.unique(ids[:, field])) + 100  # a rank may own more of the keys than others
        sizes = {"device": SMALL_DEVICE, "host": SMALL_DEVICE + rows} if host else {"device": rows}
        tables["c{:02d}".format(field)] = sizes
        features["f{:02d}".format(field)] = {"table": "c{:02d}".format(field), "width": 1}
    return {"tables": tables, "features": features, "trace": str(path), "batch": BATCH, "steps": STEPS, **more}


def trained(folder, ranks, case, **settings):
    return ranked_runs.train(folder, ranks, case, **settings).require_good_end()


def require_alike(folder, case, counts):
    """Each number of ranks trains what one rank does."""
    want = trained(folder / "1", 1, case)
    assert len(want.losses) == case["steps"]
    for count in counts:
        require_equal(trained(folder / str(count), count, case), want)


@pytest.mark.long
@pytest.mark.parametrize("name", ["criteo", traces.GENERATED])
def test_two_ranks_train_26_fields_as_one_does(tmp_path, name):
    more = {"optimizer": "lazy_adam", "modify": True} if name == "criteo" else {}
    require_alike(tmp_path, case_of(tmp_path, name, host=True, steps=10, **more), [2])


@pytest.mark.long
@pytest.mark.parametrize("name, optimizer, tier", [
    (name, optimizer, tier) for name, optimizers in (("criteo", OPTIMIZERS), (traces.GENERATED, ("lazy_adam",)))
    for optimizer in optimizers for tier in ("device", "host", "expansion")
    if (optimizer, tier) != ("ftrl", "expansion")])  # there is no FTRL by address
@pytest.mark.parametrize("modify", [False, True], ids=["FeatureSpec", "modified"])
def test_ranks_train_26_fields_as_one_does(tmp_path, name, modify, tier, optimizer):
    case = case_of(tmp_path, name, host=tier == "host", expansion=tier == "expansion", modify=modify,
                   optimizer=optimizer)
    require_alike(tmp_path, case, [2, 3, 4])


@pytest.mark.long
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("modify", [False, True], ids=["FeatureSpec", "modified"])
def test_runs_of_equal_ranks_are_the_same_bits_also_when_workers_are_killed_100_times(tmp_path, name, count, modify):
    case = case_of(tmp_path, name, host=True, optimizer="lazy_adam", modify=modify)
    first = trained(tmp_path / "first", count, case)
    same(first, trained(tmp_path / "larger", count, case_of(tmp_path, name, optimizer="lazy_adam", modify=modify),
                        ring_frames=3, workers=2, table_workers=2, plan_ahead=1))
    killed, seed = 0, 0
    while killed < 100:
        seed += 1
        run = trained(tmp_path / str(seed), count, {**case, "kills": seed}, workers=2, table_workers=2)
        same(first, run)
        killed += sum(told["killed"] for told in run.told)
        assert killed >= 10 * seed
