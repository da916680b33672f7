"""Estimators of several ranks: train, evaluate, predict and train_and_evaluate give what one rank gives, and what goes
wrong on one rank ends all rightly."""
import json
import os
import shutil
import sys
from typing import Any, Dict, List, NamedTuple

import numpy as np
import pytest

from tests.support.ascend_programs import PROGRAMS
from tests.support.ranked_runs import ended
from tests.support.several_ranks import by, needs_horovod

pytestmark = [needs_horovod, pytest.mark.timeout_s(200)]

ESTIMATOR = os.path.join(PROGRAMS, "ranked_estimator.py")
LINES, EVALUATED, STEPS = 24, 4, 40  # of the program
AT = 15  # the step before which a rank does something wrong; of an evaluation: 2


class Called(NamedTuple):
    """What the calls of an Estimator came to; told and errors by rank, of those that wrote some."""

    code: int
    said: str
    told: Dict[int, Dict[str, Any]]
    errors: Dict[int, Dict[str, Any]]

    def of_all(self, what: str) -> List[Any]:
        """The same thing of each rank, from 0 on; all came to their end without an error."""
        assert self.code == 0, self.said
        return [self.told[rank][what] for rank in sorted(self.told)]

    def logits(self) -> np.ndarray:
        """Of what was predicted: float[batches, lines], those of all ranks side by side."""
        predicted = [np.reshape([line["logit"] for line in lines], (EVALUATED, -1))
                     for lines in self.of_all("predictions")]
        return np.concatenate(predicted, axis=1)


def called(folder, launcher, count, *arguments):
    """The program on ``count`` ranks."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, ESTIMATOR] if count == 1 else by(launcher, count, ESTIMATOR)
    code, out, err = ended([*command, str(folder), *arguments], HOROVOD_FUSION_THRESHOLD="0",
                           HOROVOD_GLOO_TIMEOUT_SECONDS="5", ASCPIPE_WAIT_TIMEOUT_S="8")
    errors = {int(path.name[0]): json.loads(path.read_text()) for path in folder.glob("?.error.json")}
    assert all(told["after_s"] < 10 for told in errors.values()), errors
    told = {int(path.name[0]): json.loads(path.read_text()) for path in folder.glob("?.json")}
    return Called(code, out + err, told, errors)


def require_equal(ranks, one):
    """Losses, the mean of all ranks' metrics, and predictions, to 1e-5."""
    (losses,) = one.of_all("losses")
    assert all(told == pytest.approx(losses, rel=1e-5) for told in ranks.of_all("losses"))
    (want,) = one.of_all("evaluations")
    for number, metrics in enumerate(want):
        told = [evaluations[number] for evaluations in ranks.of_all("evaluations")]
        assert {one["global_step"] for one in told} == {metrics["global_step"]}
        assert {name: np.mean([one[name] for one in told]) for name in metrics} == pytest.approx(metrics, rel=1e-5)
    np.testing.assert_allclose(ranks.logits(), one.logits(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("how", [
    ["shared"], *(pytest.param(how, marks=pytest.mark.long)
                  for how in (["shared", "modify"], ["saves"], ["saves", "modify"]))], ids=" ".join)
def test_two_ranks_train_evaluate_and_predict_as_one_does(launcher, tmp_path, how):
    arguments = [*how, "calls=train,evaluate,predict", "steps=20"]
    require_equal(called(tmp_path / "two", launcher, 2, *arguments), called(tmp_path / "one", launcher, 1, *arguments))


@pytest.mark.long
@pytest.mark.parametrize("how", [["shared"], ["shared", "modify"]], ids=" ".join)
def test_two_ranks_train_and_evaluate_in_turns_as_one_does(launcher, tmp_path, how):
    arguments = [*how, "calls=both,predict"]
    require_equal(called(tmp_path / "two", launcher, 2, *arguments), called(tmp_path / "one", launcher, 1, *arguments))


@pytest.mark.long
@pytest.mark.parametrize("calls", ["evaluate,predict", "predict,evaluate,predict"])
def test_runs_that_only_evaluate_and_predict_read_the_newest_checkpoint_on_all_ranks(launcher, tmp_path, calls):
    trained = called(tmp_path / "run", launcher, 3, "shared")
    assert trained.code == 0, trained.said
    runs = []
    for count in (1, 2):
        folder = tmp_path / str(count)
        shutil.copytree(str(tmp_path / "run" / "model"), str(folder / "model"))
        runs.append(called(folder, launcher, count, "shared", "calls=" + calls))
    require_equal(runs[1], runs[0])


def fault(kind, rank, call="train", at=AT):
    return "fault={},{},{},{}".format(kind, rank, at, call)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["ends_early", "stop_request"])
@pytest.mark.parametrize("rank", [0, 1])
def test_training_that_ends_early_on_one_rank_ends_on_all(launcher, tmp_path, rank, kind):
    run = called(tmp_path / "run", launcher, 2, fault(kind, rank))
    if kind == "ends_early":
        assert [len(losses) for losses in run.of_all("losses")] == [AT, AT]
    else:
        assert run.code != 0 and list(run.errors) == [1 - rank], run.said
        assert "rank {}".format(rank) in run.errors[1 - rank]["error"]


@pytest.mark.long
@pytest.mark.parametrize("call", ["evaluate", "predict"])
@pytest.mark.parametrize("rank", [0, 1])
def test_an_evaluation_whose_data_ends_early_on_one_rank_ends_on_all_at_the_same_step(launcher, tmp_path, rank, call):
    run = called(tmp_path / "run", launcher, 2, "shared", "calls=train,evaluate,predict", "steps=20",
                 fault("ends_early", rank, call, 2))
    lines = [len(predicted) for predicted in run.of_all("predictions")]
    assert lines == [LINES // 2 * (2 if call == "predict" else EVALUATED)] * 2
    assert [len(told) for told in run.of_all("evaluations")] == [1, 1]


#: Faults of a rank, and what is said of them by it or by the launcher.
FAULTS = {"raise": "the program's own error", "exit": "", "kill": "", "stops": "", "supervisor": "E110",
          "interrupt": "KeyboardInterrupt", "nan": "the rows : Tensor had NaN values"}


@pytest.mark.long
@pytest.mark.parametrize("kind", sorted(FAULTS))
@pytest.mark.parametrize("call", ["train", "evaluate", "predict", "both"])
@pytest.mark.parametrize("rank", [0, 1])
def test_what_fails_on_one_rank_fails_on_all(launcher, tmp_path, swept, rank, call, kind):
    calls = {"train": "train", "both": "both"}.get(call, "train," + call)
    steps = 40 if call in ("train", "both") else 20  # not over when an interruption comes
    run = called(tmp_path / "run", launcher, 2, "shared", "calls=" + calls, "steps={}".format(steps),
                 fault(kind, rank, call, AT if call in ("train", "both") else 2))
    assert run.code != 0 and FAULTS[kind] in run.said, run.said
    # The launcher ends the other rank of one that was killed; an interruption may come when a short evaluation is over.
    is_told = kind not in ("kill", "interrupt") or (kind == "interrupt" and call in ("train", "both"))
    assert not is_told or 1 - rank in run.errors, run.said
    if kind == "raise":
        assert "rank {}: ValueError: {}".format(rank, FAULTS[kind]) in run.errors[1 - rank]["error"]
    if kind == "kill":
        assert "137" in run.said or "was killed by SIGKILL" in run.said, run.said


@pytest.mark.long
@pytest.mark.parametrize("kind", ["workers", "late"])
@pytest.mark.parametrize("call", ["train", "evaluate", "predict", "both"])
@pytest.mark.parametrize("rank", [0, 1])
def test_killed_workers_and_a_late_rank_change_nothing(launcher, tmp_path, rank, call, kind):
    calls = "both,predict" if call == "both" else "train,evaluate,predict"
    runs = [called(tmp_path / one, launcher, 2, "shared", "calls=" + calls, "steps=20",
                   fault(one, rank, call, AT if call in ("train", "both") else 2)) for one in ("none", kind)]
    for what in ("losses", "evaluations", "predictions"):
        assert runs[0].of_all(what) == runs[1].of_all(what)


@pytest.mark.long
@pytest.mark.parametrize("call", ["evaluate", "predict"])
def test_an_evaluation_that_one_rank_alone_does_is_an_error_that_says_so(launcher, tmp_path, call):
    run = called(tmp_path / "run", launcher, 2, "shared", "calls=train,{}0".format(call), "steps=20")
    assert run.code != 0 and "all ranks evaluate or predict" in run.errors[0]["error"], run.said
