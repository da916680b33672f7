"""Something goes wrong on one rank: all go on correctly, end at the same step, or fail soon and say why."""
import pytest

from tests.support import ranked_runs
from tests.support.several_ranks import needs_horovod

pytestmark = [needs_horovod, pytest.mark.timeout_s(150)]

CASE = {"tables": {"user": {}, "item": {"dim": 4}}, "steps": 30,
        "features": {"a": {"table": "user"}, "c": {"table": "item", "width": 1}}}
AT, MANY = 15, 400
#: A batch that was skipped is forgotten when keys are sent next; none are, where all ranks have those of the next step.


@pytest.fixture
def ran(launcher):
    """Gives a run in which a rank does something wrong before step 15, or all do where ``rank`` is -1."""
    def run(folder, kind, rank, count=2, steps=30, **settings):
        case = {**CASE, "steps": steps, "fault": {"kind": kind, "rank": rank, "step": AT}}
        return ranked_runs.train(folder, count, case, 100, launcher, **settings)

    return run


def require_error(run, *words, of=None, at=(AT,)):
    """That ranks fail soon with an error that has all the words: those in ``of``, or all."""
    assert run.code != 0, run.said
    for rank in range(len(run.told)) if of is None else of:
        told = run.told[rank]
        assert "error" in told, "rank {}: {}\n{}".format(rank, told, run.said)
        kind, text = told["error"]
        assert kind != "OutOfRangeError" and all(word in text for word in words), text
        assert told["after_s"] < 10
        assert len(told["losses"]) in at


@pytest.mark.parametrize("rank", [0, pytest.param(1, marks=pytest.mark.long)])
def test_all_ranks_end_their_data_at_the_same_step(ran, tmp_path, rank):
    run = ran(tmp_path / "run", "ends_early", rank)
    assert run.code == 0, run.said
    assert len(run.losses) == AT
    assert {told["error"][0] for told in run.told} == {"OutOfRangeError"}


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 3])
def test_four_ranks_end_their_data_at_the_same_step(ran, tmp_path, rank):
    run = ran(tmp_path / "run", "ends_early", rank, count=4)
    assert (run.code, len(run.losses)) == (0, AT), run.said


@pytest.mark.long
def test_a_batch_that_all_ranks_skip_is_not_trained(ran, tmp_path):
    run = ran(tmp_path / "run", "skip", -1, wait_timeout_s=3).require_good_end()
    one = ranked_runs.train(tmp_path / "one", 1, {**CASE, "fault": {"kind": "skip", "rank": 0, "step": AT}})
    assert run.losses == pytest.approx(one.losses, rel=1e-5)


@pytest.mark.parametrize("rank", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_batch_that_one_rank_skips_is_an_error_on_all(ran, tmp_path, rank):
    run = ran(tmp_path / "run", "skip", rank, wait_timeout_s=3)
    require_error(run, "rank {} ".format(rank), "batch {}".format(AT + 1))


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_a_step_that_fails_on_one_rank_fails_on_all(ran, tmp_path, rank):
    run = ran(tmp_path / "run", "nan", rank)
    require_error(run, "the rows : Tensor had NaN values", of=[rank])
    require_error(run, "rank {}: its step".format(rank), of=[1 - rank])


@pytest.mark.parametrize("rank", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_step_that_fails_after_its_gradients_have_gone_to_other_ranks_poisons_all(ran, tmp_path, rank):
    run = ran(tmp_path / "run", "nan_gradient", rank)
    require_error(run, "a gradient : Tensor had NaN values", of=[rank])
    require_error(run, "rank {}: its step".format(rank), of=[1 - rank], at=(AT, AT + 1))
    assert run.told[1 - rank]["error"][0] == "DataLossError"


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_stops_training_early_stops_the_others_with_an_error(ran, tmp_path, rank):
    require_error(ran(tmp_path / "run", "close", rank), "rank {} ".format(rank), of=[1 - rank])


@pytest.mark.parametrize("kind", [pytest.param("raise", marks=pytest.mark.long), "exit"])
@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.long), 1])
def test_a_program_that_ends_on_one_rank_ends_on_all(ran, tmp_path, rank, kind):
    run = ran(tmp_path / "run", kind, rank)
    assert run.code != 0, run.said
    other = run.told[1 - rank]
    assert "error" in other, run.said
    assert other["after_s"] < 10
    assert "ended" not in other or not other["ended"]
    said = {"raise": "rank {}: ValueError: the program's own error", "exit": "rank {} has ended"}[kind]
    assert said.format(rank) in other["error"][1]


@pytest.mark.long  # test_run_ranks.py has a rank that is killed, and the tests here what its peer says
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_killed_ends_all(ran, launcher, tmp_path, rank):
    run = ran(tmp_path / "run", "kill", rank)
    says = {"gloo": ["Process name: {}".format(rank), "137"],
            "mpi": ["process rank {} with PID".format(rank), "ascpipe: rank {} was killed by SIGKILL".format(rank)]}
    assert run.code != 0
    assert all(words in run.said for words in says[launcher]), run.said
    assert not run.told[1 - rank].get("ended")


def test_all_ranks_begin_their_data_anew(ran, tmp_path):
    run = ran(tmp_path / "run", "begin_anew", -1).require_good_end()
    one = ranked_runs.train(tmp_path / "one", 1, {**CASE, "fault": {"kind": "begin_anew", "rank": 0, "step": AT}})
    assert run.losses == pytest.approx(one.losses, rel=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_data_that_one_rank_begins_anew_is_an_error_on_all(ran, tmp_path, rank):
    require_error(ran(tmp_path / "run", "begin_anew", rank), "rank {} ".format(rank), "iterator")


@pytest.mark.long
def test_handles_that_no_gradient_chooses_among_are_refused_with_several_ranks(launcher, tmp_path):
    case = {**CASE, "expansion": True, "fault": {"kind": "read_handles", "rank": -1, "step": AT}}
    run = ranked_runs.train(tmp_path / "run", 2, case, 100, launcher)
    require_error(run, "AscReadRows", "cannot be trained by several ranks yet")


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_an_evaluation_on_one_rank_is_an_error_on_all(ran, tmp_path, rank):
    run = ran(tmp_path / "run", "evaluate", rank, wait_timeout_s=4)
    require_error(run)


@pytest.mark.long
@pytest.mark.parametrize("rank", [-1, 0, 1])
def test_data_that_comes_late_is_waited_for(ran, tmp_path, rank):
    run = ran(tmp_path / "run", "stalls", rank).require_good_end()
    assert run.losses == pytest.approx(ranked_runs.train(tmp_path / "one", 1, CASE).losses, rel=1e-5)


@pytest.mark.long
def test_a_batch_that_all_ranks_filter_is_not_trained(ran, tmp_path):
    run = ran(tmp_path / "run", "filters", -1).require_good_end()
    one = ranked_runs.train(tmp_path / "one", 1, {**CASE, "fault": {"kind": "filters", "rank": 0, "step": AT}})
    assert run.losses == pytest.approx(one.losses, rel=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_filters_a_batch_before_its_keys_are_sent_trains_the_next_one(ran, tmp_path, rank):
    run = ran(tmp_path / "run", "filters", rank).require_good_end()
    plain = ranked_runs.train(tmp_path / "one", 1, CASE)
    assert run.losses[:AT] == pytest.approx(plain.losses[:AT], rel=1e-5)
    assert len(run.losses) == len(plain.losses) and run.losses[AT] != pytest.approx(plain.losses[AT], rel=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_filters_a_batch_whose_keys_are_sent_is_an_error_on_all(ran, tmp_path, rank):
    run = ran(tmp_path / "run", "filters_keys", rank, wait_timeout_s=3)
    require_error(run, "rank {} ".format(rank), "batch {}".format(AT + 1), of=[1 - rank])
    require_error(run, "rank {}".format(1 - rank), of=[rank])


@pytest.mark.long
@pytest.mark.parametrize("rank", [-1, 0, 1])
def test_an_evaluation_left_half_read_changes_nothing_by_all_ranks_and_is_an_error_by_one(launcher, tmp_path, rank):
    case = {**CASE, "evaluate_each": AT, "fault": {"kind": "half_evaluates", "rank": rank, "step": AT}}
    run = ranked_runs.train(tmp_path / "run", 2, case, 100, launcher, wait_timeout_s=4)
    if rank == -1:
        assert run.require_good_end().losses == pytest.approx(
            ranked_runs.train(tmp_path / "one", 1, CASE).losses, rel=1e-5)
    else:
        require_error(run)


@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.long), 1])
def test_a_rank_whose_daemon_is_killed_ends_all_with_an_error(ran, tmp_path, swept, rank):
    run = ran(tmp_path / "run", "supervisor", rank, steps=MANY, wait_timeout_s=20)
    require_error(run, "E110", "supervisor", "died", of=[rank], at=range(AT, MANY))
    require_error(run, "rank {}".format(rank), of=[1 - rank], at=range(AT, MANY))


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_interrupted_ends_all(ran, tmp_path, rank):
    run = ran(tmp_path / "run", "interrupt", rank, steps=MANY)
    assert run.code != 0 and "KeyboardInterrupt" in run.said, run.said
    require_error(run, of=[1 - rank], at=range(AT, MANY))


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_stopped_is_given_up(ran, tmp_path, swept, rank):
    run = ran(tmp_path / "run", "stops", rank, wait_timeout_s=4)
    require_error(run, "E310", "rank {}".format(1 - rank), "the other ranks", of=[1 - rank])


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_waits_for_its_key_worker_says_so(launcher, tmp_path, rank):
    case = {**CASE, "fault": {"kind": "key_workers_stop", "rank": rank, "step": AT}}
    run = ranked_runs.train(tmp_path / "run", 2, case, 100, launcher, wait_timeout_s=4, ring_frames=3)
    require_error(run, "the key worker to deduplicate its keys", of=[rank], at=range(AT, AT + 8))
    require_error(run, of=[1 - rank], at=range(AT, AT + 8))
