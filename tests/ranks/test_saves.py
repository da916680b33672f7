"""What several ranks save is one checkpoint, of one step, from which any number of ranks goes on."""
import json
import os
import random
import shutil
import signal

import numpy as np
import pytest

from ascpipe.checkpoint.reader import open_checkpoint
from ascpipe.checkpoint.retention import complete_checkpoints
from ascpipe.rows import export, imports
from ascpipe.rows.export import exported
from ascpipe.rows.imports import imported
from tests.ranks.test_exactness import ALL_SORTS, ESTIMATOR, OF_ALL_SORTS, ON_DISK, SMALL, THREE, TWO, same
from tests.support import ranked_runs
from tests.support.checkpoints import by_key
from tests.support.commands import ascpipe
from tests.support.several_ranks import by, needs_horovod
from tests.support.waiting import wait_until

pytestmark = [needs_horovod, pytest.mark.timeout_s(280)]

CASE = {"tables": SMALL, "features": THREE, "optimizer": "lazy_adam", "steps": 40}
STRIDE = 11  #: of the file operations before which a rank is killed
SAVES = {**CASE, "saves": [10, 20, 30], "save": {"save_delta": True}, "rank_0_saves": True}


def saved(folder, step):
    return os.path.join(str(folder), "saved", "model.ckpt-{}".format(step))


def goes_on(folder, ranks, case, prefix, launcher="gloo"):
    """The run that goes on from a checkpoint."""
    case = {**case, "saves": [], "restore": prefix}
    return ranked_runs.train(folder, ranks, case, launcher=launcher).require_good_end()


def require_close(got, want, step):
    np.testing.assert_allclose(got.losses, want.losses[step:], rtol=1e-5)
    for name, rows in want.rows.items():
        np.testing.assert_allclose(got.rows[name], rows, rtol=1e-5, atol=1e-6, err_msg=name)


def require_same(got, want, step):
    same(got._replace(told=[{**told, "losses": want.losses[:step] + told["losses"]} for told in got.told]), want)


def await_files(folder, count):
    """Wait until saves have written so many files."""
    wait_until(lambda: sum(len(names) for _, _, names in os.walk(str(folder))) >= count,
               timeout_s=100.0, what="{} files of saves".format(count))


@pytest.fixture(scope="module")
def two(launcher, tmp_path_factory):
    """A run of two ranks whose rank 0 alone saves, and its folder."""
    folder = tmp_path_factory.mktemp("two") / "run"
    return folder, ranked_runs.train(folder, 2, SAVES, launcher=launcher).require_good_end()


def test_a_save_of_rank_0_has_the_tables_of_all_ranks(two):
    folder, run = two
    assert [told.get("saved") for told in run.told] == [[saved(folder, step) for step in (10, 20, 30)], None]
    found = complete_checkpoints(str(folder / "saved"))
    assert [(one.step, one.is_delta) for one in found] == [(10, False), (20, True), (30, True)]
    with open_checkpoint(saved(folder, 30)) as checkpoint:
        assert len(checkpoint.positions) == 2
        assert len({position.run_id for position in checkpoint.positions}) == 2
        assert [position.trained_batches for position in checkpoint.positions] == [{"training": 30}] * 2
        for table in SMALL:
            shares = [checkpoint.rows_of(table, rank, 2)[0] for rank in range(2)]
            assert sum(shares) == checkpoint.tables[table].rows > 50 and min(shares) > 20


def test_ascpipe_checkpoint_shows_the_ranks_of_a_checkpoint(two):
    folder, _ = two
    shown = ascpipe("checkpoint", "show", saved(folder, 10))
    assert shown.returncode == 0 and "slices" in shown.stdout
    verified = ascpipe("checkpoint", "verify", folder / "saved")
    assert verified.returncode == 0 and "model.ckpt-30" in verified.stdout


def test_ranks_go_on_from_a_checkpoint_with_the_same_bits_where_rank_0_alone_restores(two, launcher, tmp_path):
    folder, run = two
    again = goes_on(tmp_path / "again", 2, SAVES, saved(folder, 30), launcher)
    require_same(again, run, 30)
    assert "was saved by" not in again.said


def test_ranks_go_on_with_the_same_bits_after_rows_went_through_files(two, launcher, tmp_path):
    folder, run = two
    prefix = saved(folder, 30)
    for table in SMALL:
        rows = str(tmp_path / table)
        exported(export.Request(saved(folder, 30), table, rows, "npy", slots=True, counts=True))
        found = imported(imports.Request(prefix, table, rows, to=str(tmp_path / "imported" / "{}-30".format(table))))
        assert found.replaced == found.rows > 50
        prefix = found.checkpoint
    require_same(goes_on(tmp_path / "again", 2, SAVES, prefix, launcher), run, 30)


def test_one_rank_goes_on_from_a_checkpoint_of_two(two, tmp_path):
    folder, run = two
    one = goes_on(tmp_path / "one", 1, CASE, saved(folder, 20))
    require_close(one, run, 20)
    assert "was saved by 2 ranks, and this program has 1. Its numbers of trained batches (training: 20)" in one.said
    assert "must skip n * 2 // 1 batches" in one.said


@pytest.mark.parametrize("more", [
    pytest.param({}, id="tiers"), pytest.param({"expansion": True}, id="expansion", marks=pytest.mark.long)])
def test_thresholds_and_evictions_of_ranks_are_those_of_one(launcher, tmp_path, more):
    tables = {**SMALL, "user": {**SMALL["user"], "threshold": 3}}
    case = {**CASE, "tables": tables, "thresholds": {"15": 6, "25": 2}, "evict_each": 6, **more}
    one, ranks = (ranked_runs.train(tmp_path / str(count), count, case, launcher=launcher).require_good_end()
                  for count in (1, 2))
    require_close(ranks, one, 0)


@pytest.mark.long
def test_an_estimator_goes_on_where_rank_0_alone_has_checkpoints(launcher, tmp_path):
    def losses(folder, steps):
        code, out, err = ranked_runs.ended(by(launcher, 2, ESTIMATOR, str(folder), "saves", "steps={}".format(steps)))
        assert code == 0, out + err
        first, other = (json.loads((folder / "{}.json".format(rank)).read_text())["losses"] for rank in range(2))
        assert first == other
        return first

    for folder in (tmp_path / "whole", tmp_path / "cut"):
        folder.mkdir()
    whole = losses(tmp_path / "whole", 40)
    assert losses(tmp_path / "cut", 20) == whole[:20]
    assert losses(tmp_path / "cut", 40) == whole[20:]


@pytest.mark.long
@pytest.mark.parametrize("tables, count", [(SMALL, 1), (SMALL, 2), (SMALL, 3), (SMALL, 4), (ON_DISK, 2)],
                         ids=["1", "2", "3", "4", "2 with rows on disk"])
def test_any_number_of_ranks_goes_on_from_a_checkpoint_of_any_number(tmp_path, tables, count):
    case = {**CASE, "tables": {**tables, "user": {**tables["user"], "threshold": 3}}, "saves": [20]}
    run = ranked_runs.train(tmp_path / "run", count, case).require_good_end()
    for others in (1, 2, 3, 4):
        again = goes_on(tmp_path / str(others), others, case, saved(tmp_path / "run", 20))
        require_close(again, run, 20)
        if others == count:
            require_same(again, run, 20)


in_each_way = pytest.mark.parametrize(
    "how", [{}, {"background": True}, {"background": True, "save_delta": True}],
    ids=lambda how: " ".join(sorted(how)) or "plain")


@pytest.mark.long
@in_each_way
@pytest.mark.parametrize("tables, features", [(TWO, THREE), (SMALL, THREE), (ALL_SORTS, OF_ALL_SORTS)],
                         ids=["device", "host", "all sorts"])
@pytest.mark.parametrize("first", [{}, {"rank_0_saves": True}, {"expansion": True}],
                         ids=["all save", "rank 0 saves", "expansion"])
def test_ranks_save_in_each_way_and_tier(launcher, tmp_path, tables, features, how, first):
    saves_and_goes_on(tmp_path, {**CASE, "tables": tables, "features": features, "save": how, **first}, launcher)


@pytest.mark.long
@in_each_way
def test_ranks_save_rows_on_disk_in_each_way(tmp_path, how):
    saves_and_goes_on(tmp_path, {**CASE, "tables": ON_DISK, "save": how}, "gloo")


def saves_and_goes_on(folder, case, launcher):
    """Saves change no bit of a run, which two ranks repeat from each of them."""
    case = {**case, "saves": [10, 20, 30]}
    plain = ranked_runs.train(folder / "plain", 2, {**case, "saves": []}, launcher=launcher).require_good_end()
    run = ranked_runs.train(folder / "run", 2, case, launcher=launcher).require_good_end()
    same(run, plain)
    for step in (10, 30):
        require_same(goes_on(folder / str(step), 2, case, saved(folder / "run", step), launcher), run, step)


@pytest.mark.long
@pytest.mark.parametrize("killed", [0, 1])
@pytest.mark.parametrize("how", [{}, {"background": True}], ids=lambda how: " ".join(how) or "plain")
def test_a_rank_that_is_killed_while_it_saves_leaves_whole_checkpoints(launcher, tmp_path, killed, how):
    case = {**CASE, "steps": 120, "saves": list(range(10, 120, 5)), "save": how}
    whole = ranked_runs.train(tmp_path / "whole", 2, case).require_good_end()
    assert len(whole.losses) == 120
    numbers, cut = random.Random(killed), 0
    for number in range(5):
        folder = tmp_path / str(number)
        launched = ranked_runs.begin(folder, 2, case, launcher)
        try:
            await_files(folder / "saved", numbers.randrange(1, 400))
            os.kill(ranked_runs.pid_of(folder, killed), signal.SIGKILL)
        finally:
            launched.wait(60.0)
        found = complete_checkpoints(str(folder / "saved"))
        cut += len(found) < len(case["saves"])
        for one in found:
            with open_checkpoint(one.prefix) as got, open_checkpoint(saved(tmp_path / "whole", one.step)) as want:
                for table in SMALL:
                    assert by_key(got.blocks(table)) == by_key(want.blocks(table))
    assert cut > 2


@pytest.mark.long
@pytest.mark.timeout_s(1500)
@pytest.mark.parametrize("killed", [0, 1])
@pytest.mark.parametrize("how", [{}, {"background": True}, {"save_delta": True}],
                         ids=lambda how: " ".join(how) or "plain")
def test_a_rank_that_is_killed_before_a_file_operation_leaves_whole_checkpoints(tmp_path, killed, how):
    case = {**CASE, "steps": 25, "saves": [10, 20], "save": how}
    whole = ranked_runs.train(tmp_path / "whole", 2, case).require_good_end()
    operations, left = whole.told[killed]["file_operations"], set()
    assert operations > 60
    for at in range(1 + killed, operations, STRIDE):
        folder = tmp_path / str(at)
        run = ranked_runs.train(folder, 2, {**case, "cut": {"rank": killed, "at": at}}, ends_within_s=100)
        assert run.code != 0 and not run.told[killed], run.said
        found = complete_checkpoints(str(folder / "saved"))
        left.add(tuple(one.step for one in found))
        for one in found:
            with open_checkpoint(one.prefix) as got, open_checkpoint(saved(tmp_path / "whole", one.step)) as want:
                for table in SMALL:
                    assert by_key(got.blocks(table)) == by_key(want.blocks(table))
        if found:
            goes_on(tmp_path / "{} again".format(at), 2, case, found[-1].prefix)
        shutil.rmtree(str(folder))
    assert {(), (10,)} <= left <= {(), (10,), (10, 20)}
