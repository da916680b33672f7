"""Ranks whose batches, side by side, are the batch of one rank train what one rank trains."""
import json
import os
import sys

import numpy as np
import pytest

from tests.support import ranked_runs
from tests.support.ascend_programs import PROGRAMS
from tests.support.several_ranks import by, needs_horovod

pytestmark = [needs_horovod, pytest.mark.timeout_s(280)]

TWO = {"user": {}, "item": {"dim": 4}}
THREE = {"a": {"table": "user"}, "b": {"table": "user", "width": 3}, "c": {"table": "item", "width": 1}}
#: Rows that are at home when a batch does not need them; a batch needs about 60 of a table.
SMALL = {"user": {"device": 160, "host": 600}, "item": {"device": 100, "host": 600, "dim": 4}}
#: Rows that are on disk when no batch of the next few needs them.
ON_DISK = {"user": {"device": 160, "host": 160, "disk": 600},
           "item": {"device": 100, "host": 100, "disk": 600, "dim": 4}}
#: The 18 ids of a lookup of one of four ranks are its send_count, and fit four times into each rank's share.
FOR_STATIC = {**SMALL, "user": {"device": 288, "host": 600}}
ALL_SORTS = {"user": {"threshold": 3}, "item": {"dim": 4, "padding": [0, 7]}, "tag": {"dim": 3, "is_dp": True}}
OF_ALL_SORTS = {"admitted": {"table": "user"}, "again": {"table": "user", "grad": False}, "padded": {"table": "item"},
                "ragged": {"table": "tag", "ragged": True}, "whole": {"table": "tag"}}
BAGS = {"summed": {"table": "user", "width": 3, "ragged": True, "combiner": "sum"},
        "plain": {"table": "user"},
        "averaged": {"table": "item", "width": 3, "ragged": True, "combiner": "mean"}}
ESTIMATOR = os.path.join(PROGRAMS, "ranked_estimator.py")
MANY = {"t{:02d}".format(i): {"dim": 1 + i % 5, "device": 400} for i in range(26)}
MANY_FEATURES = {"f" + name[1:]: {"table": name, "width": 1} for name in MANY}


#: Terms of a gradient are about 0.01, so their sum is right to about 1e-9. The first step of lazy Adam's row is at most
#: rate / 2 * 0.1 / epsilon times that: 0.01 / 2 * 0.1 / 1e-8 * 1e-9.
CANCELLED_OFF = 5e-5


def require_equal(got, want):
    """Losses to 1e-5; rows, as vectors, to 1e-5 and 1e-6, as optimizers make steps of gradients that are nearly 0.

    Of few keys one rank may have told that their gradient cancelled: ``CANCELLED_OFF`` is allowed to their rows.
    """
    np.testing.assert_allclose(got.losses, want.losses, rtol=1e-5)
    assert sorted(got.rows) == sorted(want.rows) and want.rows
    for name, rows in want.rows.items():
        off = np.linalg.norm(got.rows[name] - rows, axis=-1)
        allowed = 1e-6 + 1e-5 * np.linalg.norm(rows, axis=-1)
        if "cancelled" in want.told[0]:
            cancelled = np.array(want.told[0]["cancelled"][name])
            assert cancelled.mean() < 0.1, (name, cancelled.sum())
            allowed[cancelled] = CANCELLED_OFF
        assert np.all(off <= allowed), (name, off.max())
    for evaluations in zip(*(told["evaluations"] for told in got.told)):
        assert len({len(batches) for batches in evaluations}) == 1


def trained(folder, case, counts, launcher="gloo", cancelled=False, **settings):
    """The same case with each number of ranks; as one rank trains it, which may tell whose gradients cancel."""
    want = ranked_runs.train(folder / "1", 1, {**case, "cancelled": cancelled}).require_good_end()
    assert len(want.losses) == case["steps"]
    for count in counts:
        run = ranked_runs.train(folder / str(count), count, case, launcher=launcher, **settings)
        require_equal(run.require_good_end(), want)
    return want


@pytest.mark.smoke
def test_two_ranks_train_what_one_trains(launcher, tmp_path):
    """One run has its rows in memory and lookups apart. The other one is the same bits: it has rows on disk, small
    rings, several workers that are killed, and joined lookups.
    """
    case = {"tables": SMALL, "features": THREE, "optimizer": "lazy_adam", "steps": 40, "evaluate_each": 20,
            "join": "apart"}
    want = ranked_runs.train(tmp_path / "one", 1, case).require_good_end()
    assert len(want.losses) == case["steps"]
    first = ranked_runs.train(tmp_path / "first", 2, case, launcher=launcher)
    require_equal(first.require_good_end(), want)
    killed = {**case, "tables": ON_DISK, "fault": {"kind": "workers", "rank": 1, "step": 20}, "join": "concat"}
    other = ranked_runs.train(tmp_path / "other", 2, killed, launcher=launcher, ring_frames=3, workers=2,
                              table_workers=2).require_good_end()
    assert other.told[1]["killed"] == 5  # two key workers, two table workers, the disk worker
    require_joined({"apart": first, "concat": other})


def test_two_ranks_with_all_that_features_may_be_train_what_one_trains(launcher, tmp_path):
    trained(tmp_path, {"tables": ALL_SORTS, "features": OF_ALL_SORTS, "steps": 60}, [2], launcher)


@pytest.mark.parametrize("way", [
    pytest.param({}, marks=pytest.mark.long), {"modify": True},
    pytest.param({"expansion": True, "optimizer": "lazy_adam"}, marks=pytest.mark.long)],
    ids=["features", "tensors", "expansion"])
def test_two_ranks_train_bags_of_ids_as_one_does(tmp_path, way):
    sizes = {"user": {}, "item": {"dim": 4}} if "expansion" in way else SMALL
    trained(tmp_path, {"tables": sizes, "features": BAGS, "steps": 40, "evaluate_each": 20, **way}, [2])


@pytest.mark.long
def test_two_ranks_train_a_modified_graph_as_one_does(tmp_path):
    trained(tmp_path, {"tables": SMALL, "features": THREE, "steps": 40, "modify": True, "evaluate_each": 20}, [2])


def test_two_ranks_train_tables_that_grow_as_one_does(launcher, tmp_path):
    trained(tmp_path, {"tables": ALL_SORTS, "features": OF_ALL_SORTS, "optimizer": "lazy_adam", "expansion": True,
                       "steps": 40, "evaluate_each": 20}, [2], launcher)


@pytest.mark.long  # the first test has them on disk, too
def test_two_ranks_train_tables_whose_rows_go_to_disk_as_one_does(launcher, tmp_path):
    trained(tmp_path, {"tables": ON_DISK, "features": THREE, "optimizer": "lazy_adam", "steps": 40,
                       "evaluate_each": 20}, [2], launcher)


def with_send_count(folder, allowed):
    """Train a table of which a batch has three distinct keys of rank 0."""
    ids = [[0, 2, 4, 1], [6, 3, 5, 3]]  # of the lines of each rank; the first rank has three keys of rank 0
    np.save(str(folder / "lines.npy"), np.array([[key % 2, key] for key in np.ravel([ids] * 8)]))
    return ranked_runs.train(folder / "run", 2, {
        "tables": {"user": {}}, "features": {"a": {"table": "user", "width": 1}}, "static": True, "steps": 5,
        "batch": 8, "trace": str(folder / "lines.npy"), "send_count": allowed})


def test_a_batch_with_more_keys_of_a_rank_than_send_count_allows_is_refused(tmp_path):
    kind, text = with_send_count(tmp_path, 2).told[0]["error"]
    assert kind == "InvalidArgumentError"
    assert "the batch has 3 distinct keys of rank 0, more than send_count allows (2 for each of 1 features)" in text


@pytest.mark.long
def test_a_batch_with_as_many_keys_of_a_rank_as_send_count_allows_is_trained(tmp_path):
    with_send_count(tmp_path, 3).require_good_end()


@pytest.mark.long
@pytest.mark.parametrize("more", [{}, {"modify": True}, {"static": True}], ids=lambda more: "_".join(more) or "plain")
@pytest.mark.parametrize("optimizer", ["adagrad", "lazy_adam", "gradient_descent"])
def test_ranks_train_300_steps_of_tables_that_grow_as_one_does(tmp_path, optimizer, more):
    trained(tmp_path, {"tables": TWO, "features": THREE, "optimizer": optimizer, "expansion": True, "steps": 300,
                       **more}, [2, 3, 4])


@pytest.mark.long
@pytest.mark.parametrize("tables", [TWO, SMALL, ON_DISK], ids=["device", "host", "disk"])
@pytest.mark.parametrize("optimizer", ["adagrad", "lazy_adam", "gradient_descent", "ftrl"])
def test_ranks_train_300_steps_as_one_does(tmp_path, optimizer, tables):
    trained(tmp_path, {"tables": tables, "features": THREE, "optimizer": optimizer, "steps": 300}, [2, 3, 4])


@pytest.mark.long
@pytest.mark.parametrize("more", [
    {"static": True, "tables": FOR_STATIC}, {"modify": True}, {"modify": True, "static": True, "tables": FOR_STATIC},
    {"evaluate_each": 7}],
    ids=["static", "modified", "modified and static", "evaluation"])
def test_ranks_train_in_each_mode_as_one_does(tmp_path, more):
    trained(tmp_path, {"tables": SMALL, "features": THREE, "steps": 300, **more}, [2, 4])


@pytest.mark.long
@pytest.mark.parametrize("modify", [False, True])
def test_26_tables_train_as_on_one_rank(tmp_path, modify):
    trained(tmp_path, {"tables": MANY, "features": MANY_FEATURES, "steps": 300, "modify": modify}, [2, 3])


@pytest.mark.long
@pytest.mark.parametrize("optimizer", ["adagrad", "lazy_adam"])
@pytest.mark.parametrize("host", [0, 600])
def test_ranks_admit_pad_and_leave_out_as_one_does(tmp_path, host, optimizer):
    tables = {name: {**table, "host": host} for name, table in ALL_SORTS.items()}
    if host:
        tables = {name: {**table, "device": 240} for name, table in tables.items()}
    trained(tmp_path, {"tables": tables, "features": OF_ALL_SORTS, "optimizer": optimizer, "steps": 300}, [2, 3, 4],
            cancelled=optimizer == "lazy_adam")


@pytest.mark.long
def test_added_gradients_are_those_of_one_rank_times_the_ranks(tmp_path):
    case = {"tables": TWO, "features": THREE, "optimizer": "gradient_descent", "steps": 1}
    one, two, four = (ranked_runs.train(tmp_path / str(count), count, {**case, "average": False}).require_good_end()
                      for count in (1, 2, 4))
    for name in one.rows:  # first rows less once, twice and four times the gradients
        np.testing.assert_allclose(four.rows[name] - one.rows[name], 3 * (two.rows[name] - one.rows[name]),
                                   rtol=1e-4, atol=1e-6)
        assert np.abs(two.rows[name] - one.rows[name]).max() > 1e-4


def same(first, second):
    """Require two runs to be the same bits."""
    assert first.losses == second.losses
    assert sorted(first.rows) == sorted(second.rows) and first.rows
    for name, rows in first.rows.items():
        np.testing.assert_array_equal(rows, second.rows[name], err_msg=name)


def ops_of(ran, kind):
    """Of a step of a kind: how many lookups, joined lookups and concats it has, and how many sums, apart and joined."""
    assert all(told["ops"] == ran.told[0]["ops"] for told in ran.told)
    ops = ran.told[0]["ops"][kind]
    return tuple(ops.get(name, 0) for name in (
        "AscRestoreRows", "AscRead", "ConcatV2", "AscLookupGrad", "AscSum"))


WAYS = ("apart", "concat")


def joined(folder, count, case):
    """The runs of a case whose rows are side by side, by how; all are the same bits."""
    runs = {how: ranked_runs.train(folder / how, count, {**case, "join": how}).require_good_end() for how in WAYS}
    require_same_joined(runs)
    return runs


def require_same_joined(runs):
    """Require runs to be the same bits, and to plan and update all tables together."""
    first, *_ = runs.values()
    for ran in runs.values():
        same(first, ran)
        assert [told["evaluations"] for told in ran.told] == [told["evaluations"] for told in first.told]
        ops = ran.told[0]["ops"]["train"]
        assert (ops["AscPlans"], ops["AscUpdate"]) == (1, 1)


@pytest.mark.long
def test_rows_that_two_ranks_join_are_read_by_one_op_and_their_gradients_summed_by_one(tmp_path):
    case = {"tables": SMALL, "features": THREE, "optimizer": "lazy_adam", "steps": 30, "evaluate_each": 15}
    require_joined(joined(tmp_path, 2, case))


def require_joined(runs):
    """Require the same bits of runs of ``THREE`` by the way they join rows, and the ops of each way."""
    require_same_joined(runs)
    # A sum of what came from all ranks is an op for each table.
    trained_by = {"apart": (2, 0, 1, 2, 1), "concat": (0, 1, 0, 2, 1)}
    evaluated_by = {"apart": (2, 0, 1, 0, 0), "concat": (0, 1, 0, 0, 0)}
    for how, ran in runs.items():
        assert (ops_of(ran, "train"), ops_of(ran, "evaluate")) == (trained_by[how], evaluated_by[how])


@pytest.mark.long
def test_rows_of_tables_that_grow_are_joined_by_one_op_on_two_ranks(tmp_path):
    case = {"tables": TWO, "features": THREE, "expansion": True, "steps": 20}
    apart, concat = (ranked_runs.train(tmp_path / how, 2, {**case, "join": how}).require_good_end()
                     for how in ("apart", "concat"))
    same(apart, concat)
    # What ranks ask of each other is dealt out by an op for each table.
    assert ops_of(concat, "train") == (2, 1, 0, 2, 1) and ops_of(apart, "train") == (4, 0, 1, 2, 1)


@pytest.mark.long
@pytest.mark.parametrize("features", [MANY_FEATURES, OF_ALL_SORTS], ids=["26 tables", "all sorts"])
@pytest.mark.parametrize("count", [2, 3])
def test_rows_that_ranks_join_are_the_same_bits_as_those_of_lookups_apart(tmp_path, count, features):
    tables = MANY if features is MANY_FEATURES else ALL_SORTS
    joined(tmp_path, count, {"tables": tables, "features": features, "steps": 150, "evaluate_each": 50})


@pytest.mark.long
@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("settings", [
    {"ring_frames": 2}, {"ring_frames": 64, "workers": 3}, {"table_workers": 3}, {"look_ahead": 1, "plan_ahead": 1}],
    ids=lambda settings: "_".join(settings))
def test_runs_of_equal_ranks_are_the_same_bits(tmp_path, count, settings):
    case = {"tables": SMALL, "features": THREE, "optimizer": "lazy_adam", "steps": 150}
    first = ranked_runs.train(tmp_path / "usual", count, case).require_good_end()
    same(first, ranked_runs.train(tmp_path / "other", count, case, **settings).require_good_end())


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_killed_workers_of_a_rank_change_nothing(tmp_path, rank):
    case = {"tables": SMALL, "features": THREE, "optimizer": "lazy_adam", "steps": 150, "evaluate_each": 50}
    first = ranked_runs.train(tmp_path / "usual", 2, case).require_good_end()
    killed = {**case, "fault": {"kind": "workers", "rank": rank, "step": 70}}
    other = ranked_runs.train(tmp_path / "killed", 2, killed).require_good_end()
    assert other.told[rank]["killed"] >= 2
    same(first, other)


@pytest.mark.long
@pytest.mark.parametrize("how", ["features", "modify"])
def test_an_estimator_of_two_ranks_trains_what_that_of_one_does(launcher, tmp_path, how):
    losses = []
    for command in ([sys.executable, ESTIMATOR], by(launcher, 2, ESTIMATOR)):
        folder = tmp_path / str(len(losses))
        folder.mkdir()
        code, out, err = ranked_runs.ended([*command, str(folder), how])
        assert code == 0, out + err
        losses += [json.loads(path.read_text())["losses"] for path in sorted(folder.glob("*.json"))]
    one, first, other = losses
    assert first == other
    assert (len(one), first) == (40, pytest.approx(one, rel=1e-5))


@pytest.mark.long
@pytest.mark.parametrize("tables", [SMALL, ON_DISK], ids=["host", "disk"])
@pytest.mark.parametrize("count", [2, 4])
def test_evaluations_in_a_thread_beside_training_see_states_between_two_steps(tmp_path, count, tables):
    changes = {"steps": 40, "saves": [12, 25], "thresholds": {"18": 2}, "rank_0_saves": True,
               "tables": {**tables, "user": {**tables["user"], "threshold": 3}}}
    case = {"features": THREE, "optimizer": "lazy_adam", **changes}
    plain = ranked_runs.train(tmp_path / "plain", count, {**case, "evaluate_each": 1}).require_good_end()
    beside = ranked_runs.train(tmp_path / "beside", count, {**case, "evaluates_beside": 12}).require_good_end()
    same(plain, beside)
    untrained = ranked_runs.train(tmp_path / "untrained", count, {**case, "steps": 0, "saves": []})
    places = []
    for rank, (usual, other) in enumerate(zip(plain.told, beside.told)):
        states = [untrained.told[rank]["evaluations"][0], *usual["evaluations"]]
        seen = sum(other["beside"], [])
        assert len(seen) == 12 * len(states[0])
        places.append([[step for step, state in enumerate(states) if state[i % len(state)] == rows]
                       for i, rows in enumerate(seen)])
    steps = [0]
    for found in zip(*places):  # batches of all ranks are of one state, which is not before that of the last ones
        states = [step for step in set(found[0]).intersection(*found[1:]) if step >= steps[-1]]
        assert states, (found, steps)
        steps.append(min(states))
    assert len(set(steps)) > 3
