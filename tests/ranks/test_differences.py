"""Ranks that differ in what must be alike are told so before anything is trained; in all else they may differ."""
import json

import pytest

from tests.support import ranked_runs
from tests.support.several_ranks import needs_horovod

pytestmark = needs_horovod

USER = "table 'user', "
#: what is other on rank 1: what the error names, and both values
DIFFERENCES = {
    "dim": (USER + "dim", "4", "8"),
    "device_vocabulary_size": (USER + "device_vocabulary_size per rank", "32", "64"),
    "host_vocabulary_size": (USER + "host_vocabulary_size per rank", "320", "640"),
    "initial value": (USER + "parameters of initial rows", "(1.0,", "(2.0,"),
    "kind of initial rows": (USER + "kind of initial rows", "0", "1"),
    "seed": (USER + "seed of initial rows", "1", "2"),
    "padding_keys": (USER + "padding_keys", "()", "(3,)"),
    "average_gradients": (USER + "average_gradients", "False", "True"),
    "access_threshold": (USER + "access_threshold", "1", "2"),
    "eviction_threshold": (USER + "eviction_threshold", "5", "6"),
    "another table": ("tables", "['user']", "['user', 'item']"),
    "feature": ("training stream 0, features", "[('id", "[('ids"),
    "optimizer": (USER + "optimizer slots", "[]", "[('Adagrad_accumulator'"),
    "learning rate": (USER + "optimizer's rate", "0.1", "0.2"),
    "decay": (USER + "optimizer's rate", "computed from 0.01 ", "computed from 0.02 "),
    "beta1": (USER + "optimizer's beta1", "0.9", "0.8"),
    "combiner": ("combiners of lookups", "sum", "mean"),
    "max_norm": ("combiners of lookups", "sum", "sum with max_norm 3"),
    "dense learning rate": ("variable layer/kernel", "float [6,3] ApplyGradientDescent alpha 0.1",
                            "float [6,3] ApplyGradientDescent alpha 0.3"),
    "dense optimizer": ("variable layer/kernel", "float [6,3] ApplyGradientDescent", "float [6,3] ApplyAdagrad"),
    "dense units": ("variable layer/kernel", "float [6,3]", "float [6,5]"),
    "name of a collective": ("collective HorovodAllreduce_gradients_dense_MatMul", None, None),
    "collective of its own": ("collective mine", None, None),
}
LEGAL = ["summaries", "data", "device", "variable of its own", "saver", "fetches", "collective that is not run"]


def tell(folder, things):
    """What each rank said, by thing."""
    folder.mkdir()
    code, said = ranked_runs.run_script("rank_differences.py", folder, 2, *things, wait_timeout_s=20)
    assert code == 0, said
    told = [[json.loads(line) for line in (folder / "{}.jsonl".format(rank)).read_text().splitlines()]
            for rank in range(2)]
    assert [[one["thing"] for one in of_rank] for of_rank in told] == [list(things)] * 2, said
    return dict(zip(things, zip(*told)))


def require_difference(thing, told):
    """Both ranks say within 10 s what differs, and have trained nothing."""
    item, first, other = DIFFERENCES[thing]
    for one in told:
        text = one["error"]
        assert text is not None and text.startswith("E313: the ranks differ: "), (thing, one)
        if first is None:
            assert item in text and "is there on rank" in text, text
        else:
            assert "{} is {}".format(item, first) in text and " on rank 0 and {}".format(other) in text, text
            assert " on rank 1. " in text, text
        assert one["after_s"] < 10 and not one["losses"], one


@pytest.mark.timeout_s(150)
def test_ranks_that_differ_are_told_in_what_and_may_differ_in_what_trains_nothing(tmp_path):
    things = ["learning rate", "name of a collective", "access_threshold", "summaries", "variable of its own"]
    told = tell(tmp_path / "run", things)
    for thing in things[:3]:
        require_difference(thing, told[thing])
    for thing in things[3:]:
        assert all(one["error"] is None and len(one["losses"]) == 2 for one in told[thing]), told[thing]


@pytest.mark.long
@pytest.mark.timeout_s(400)
def test_each_thing_that_must_be_alike_is_named_and_each_other_thing_may_differ(tmp_path):
    told = tell(tmp_path / "run", [*DIFFERENCES, *LEGAL])
    for thing in DIFFERENCES:
        require_difference(thing, told[thing])
    for thing in LEGAL:
        assert all(one["error"] is None and len(one["losses"]) == 2 for one in told[thing]), told[thing]
