"""Rows on disk: whatever trains, its losses and rows are those of tables on the device alone, bit by bit."""
import numpy as np
import pytest

from ascpipe import names
from tests.support import ranked_runs, traces

pytestmark = [pytest.mark.timeout_s(280), pytest.mark.usefixtures("forked_programs")]

BATCH, STEPS, HALF = 192, 35, 18
OPTIMIZERS = ("adagrad", "lazy_adam", "gradient_descent", "ftrl")
TRACES = (traces.GENERATED, "criteo", "movielens", "talkingdata")
SORTS = {"user": {"threshold": 3}, "item": {"dim": 4, "padding": [0, 7]}, "tag": {"dim": 3}}
OF_ALL_SORTS = {"admitted": {"table": "user"}, "again": {"table": "user", "grad": False}, "padded": {"table": "item"},
                "ragged": {"table": "tag", "ragged": True}, "whole": {"table": "tag"}}


def cases_of(folder, name, fields=26, **more):
    """Return three cases, with a table and a feature for each of the first fields of a trace.

    All rows are on the device; or the device holds one batch, and all rows are in host memory; or the device holds one
    batch, host memory one and a half, and the other rows are on disk.
    """
    ids = traces.read(name)[:(STEPS + 3) * BATCH, :fields]
    path = folder / "{}.npy".format(name)
    np.save(str(path), np.concatenate([np.random.RandomState(3).randint(0, 2, (len(ids), 1)), ids], axis=1))
    names = ["c{:02d}".format(field) for field in range(ids.shape[1])]
    rows = {table: len(np.unique(ids[:, field])) for field, table in enumerate(names)}
    case = {"features": {"f" + table: {"table": table, "width": 1} for table in names}, "trace": str(path),
            "batch": BATCH, "steps": STEPS, **more}
    tiers = {"device": lambda n: {"device": max(BATCH, n)},
             "host": lambda n: {"device": BATCH, "host": max(BATCH, n)},
             "disk": lambda n: {"device": BATCH, "host": BATCH * 3 // 2, "disk": max(1, n - BATCH * 3 // 2)}}
    return {tier: {**case, "tables": {table: sizes(rows[table]) for table in names}} for tier, sizes in tiers.items()}


def case_of(folder, name, **more):
    """On the device, and on disk."""
    cases = cases_of(folder, name, **more)
    return cases["device"], cases["disk"]


def require_same(folder, on_device, on_disk, **settings):
    """Both train the same bits; of the second, rows came from disk."""
    first = ranked_runs.train(folder / "device", 1, on_device).require_good_end()
    second = ranked_runs.train(folder / "disk", 1, on_disk, **settings).require_good_end()
    assert second.losses == first.losses and len(first.losses) == on_device["steps"]
    assert second.told[0]["evaluations"] == first.told[0]["evaluations"]
    for name, rows in first.rows.items():
        np.testing.assert_array_equal(second.rows[name], rows, err_msg=name)
    assert second.told[0]["fetches"] > 100
    assert not any(map(names.is_private_name, names.known_names())), "a daemon has left files"


@pytest.mark.parametrize("modify", [False, pytest.param(True, marks=pytest.mark.long)], ids=["FeatureSpec", "modified"])
def test_generated_ids_train_on_disk_as_on_the_device(tmp_path, modify):
    require_same(tmp_path, *case_of(tmp_path, traces.GENERATED, fields=8, modify=modify, evaluate_each=20))


@pytest.mark.long
@pytest.mark.parametrize("name", TRACES)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("modify", [False, True], ids=["FeatureSpec", "modified"])
def test_real_ids_train_on_disk_as_on_the_device(tmp_path, name, optimizer, modify):
    require_same(tmp_path, *case_of(tmp_path, name, optimizer=optimizer, modify=modify, evaluate_each=20))


@pytest.mark.long
@pytest.mark.parametrize("name", TRACES)
@pytest.mark.parametrize("before, after, optimizer, modify", [
    ("disk", "disk", "adagrad", False), ("disk", "device", "lazy_adam", True), ("device", "disk", "ftrl", False),
    ("disk", "host", "gradient_descent", False), ("host", "disk", "lazy_adam", True)])
def test_real_ids_go_on_from_a_save_in_the_middle_into_and_out_of_each_tier(
        tmp_path, name, before, after, optimizer, modify):
    cases = cases_of(tmp_path, name, optimizer=optimizer, modify=modify)
    whole = ranked_runs.train(tmp_path / "whole", 1, cases["device"]).require_good_end()
    cut = ranked_runs.train(tmp_path / "cut", 1, {**cases[before], "steps": HALF, "saves": [HALF]}).require_good_end()
    saved = str(tmp_path / "cut" / "saved" / "model.ckpt-{}".format(HALF))
    rest = ranked_runs.train(tmp_path / "rest", 1, {**cases[after], "restore": saved}).require_good_end()
    assert cut.losses + rest.losses == whole.losses and len(rest.losses) == STEPS - HALF
    for table, rows in whole.rows.items():
        np.testing.assert_array_equal(rest.rows[table], rows, err_msg=table)


def test_keys_that_are_admitted_padded_and_left_out_train_on_disk_as_on_the_device(tmp_path):
    case = {"features": OF_ALL_SORTS, "optimizer": "lazy_adam", "steps": 120, "evaluate_each": 30, "evict_each": 25}
    small = {name: {**table, "device": 80, "host": 90, "disk": 300} for name, table in SORTS.items()}
    require_same(tmp_path, {**case, "tables": SORTS}, {**case, "tables": small})


@pytest.mark.long
@pytest.mark.parametrize("frames", [2, 3, 64])
@pytest.mark.parametrize("static", [False, True])
def test_sizes_of_rings_and_shapes_change_no_bit_of_rows_on_disk(tmp_path, frames, static):
    on_device, on_disk = case_of(tmp_path, traces.GENERATED, static=static)
    require_same(tmp_path, on_device, on_disk, ring_frames=frames)
