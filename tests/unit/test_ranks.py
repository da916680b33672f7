"""The rank of a process by the variables of launchers; what ranks leave when they fail."""
import os

import pytest

from ascpipe import ranks

HELPERS = [ranks.get_rank_id, ranks.get_rank_size, ranks.get_local_rank_size, ranks.get_device_id]


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """No launcher has started the tests."""
    for launcher in ranks.LAUNCHERS:
        for variable in launcher:
            monkeypatch.delenv(variable, raising=False)
    monkeypatch.delenv(ranks.FOLDER_VARIABLE, raising=False)


def say(monkeypatch, launcher, *values):
    for variable, value in zip(launcher, values):
        monkeypatch.setenv(variable, str(value))


@pytest.mark.parametrize("launcher", ranks.LAUNCHERS, ids=lambda launcher: launcher.rank)
def test_each_launcher_is_understood(launcher, monkeypatch):
    assert not ranks.launched()
    say(monkeypatch, launcher, 5, 8, 1, 4)
    assert ranks.launched()
    assert [helper() for helper in HELPERS] == [5, 8, 4, 1]


@pytest.mark.parametrize("first", range(len(ranks.LAUNCHERS)))
def test_the_first_launcher_counts_and_not_what_others_left(first, monkeypatch):
    for place, launcher in enumerate(ranks.LAUNCHERS[first:]):
        say(monkeypatch, launcher, 0, 1 + 3 * place, 0, 1 + place)
    assert (ranks.get_rank_size(), ranks.get_local_rank_size()) == (1, 1)


def test_a_number_without_a_rank_is_no_launcher_of_slurm_s_and_one_of_the_others(monkeypatch):
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "4")
    assert not ranks.launched()
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    with pytest.raises(RuntimeError, match="OMPI_COMM_WORLD_RANK is not set"):
        ranks.get_rank_id()


@pytest.mark.parametrize("helper", HELPERS)
def test_unset_is_a_runtime_error_and_text_a_value_error(helper, monkeypatch):
    with pytest.raises(RuntimeError, match="OMPI_COMM_WORLD"):
        helper()
    for value in ("two", "-1", "", "8\u00b2", "\u0668", "1_0", " 1", "9" * 5000):
        say(monkeypatch, ranks.HOROVOD, *[value] * 4)
        with pytest.raises(ValueError, match="HOROVOD_"):
            helper()


def test_a_program_is_told_its_rank_in_the_variables_that_it_reads():
    assert ranks.told({"RANK_SIZE": "8", "SLURM_STEP_NUM_TASKS": "4"}) == {}
    given = dict(zip(ranks.HOROVOD, "1212"), RANK_SIZE="1", DEVICE_ID="7", OMPI_COMM_WORLD_SIZE="9")
    assert ranks.told(given) == {
        "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "RANK_ID": "1", "RANK_SIZE": "2", "ASCEND_DEVICE_ID": "1",
        "DEVICE_INDEX": "1"}
    assert ranks.told({"PMIX_RANK": "3"})["RANK_ID"] == "3"
    assert "RANK_SIZE" not in ranks.told({"PMIX_RANK": "3"})


def test_causes_are_read_in_the_order_in_which_ranks_left_them(monkeypatch, tmp_path):
    monkeypatch.setenv(ranks.FOLDER_VARIABLE, str(tmp_path))
    ranks.leave_cause("no rank, so nothing")
    for rank, text in ((1, "ticket 7:\n the disk is full"), (0, "rank 1 is gone"), (1, "and again")):
        say(monkeypatch, ranks.HOROVOD, rank, 2)
        ranks.leave_cause(text)
    with open(str(tmp_path / "rank-0.causes"), "a") as file:
        file.write("cut sho\n17")
    (tmp_path / "else.txt").write_text("1.5 not a rank's")
    assert [(cause.rank, cause.text) for cause in ranks.causes(str(tmp_path))] == [
        (1, "ticket 7: the disk is full"), (0, "rank 1 is gone"), (1, "and again")]


def test_a_rank_records_its_first_batch(monkeypatch, tmp_path):
    monkeypatch.setenv(ranks.FOLDER_VARIABLE, str(tmp_path))
    ranks.leave_first_batch()
    assert not ranks.has_first_batch(str(tmp_path))  # no launcher
    say(monkeypatch, ranks.HOROVOD, 0, 2)
    ranks.leave_first_batch()
    assert ranks.has_first_batch(str(tmp_path)) and ranks.causes(str(tmp_path)) == []


def test_a_cause_without_its_folder_is_no_further_failure(monkeypatch, tmp_path):
    say(monkeypatch, ranks.HOROVOD, 0, 2)
    ranks.leave_cause("nothing is set")
    monkeypatch.setenv(ranks.FOLDER_VARIABLE, str(tmp_path / "gone"))
    ranks.leave_cause("the folder is not there")
    ranks.leave_first_batch()
    assert os.listdir(str(tmp_path)) == []
