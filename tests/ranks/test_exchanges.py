"""How many collectives a step makes, as Horovod's own timeline tells."""
import collections
import json
import statistics

import pytest

from tests.ranks.test_exactness import MANY
from tests.support import ranked_runs
from tests.support.several_ranks import needs_horovod

pytestmark = [needs_horovod, pytest.mark.timeout_s(150)]

STEPS = 40


def collectives(path):
    """(operation, tensor) of all collectives in Horovod's timeline, in their order."""
    text = path.read_text().rstrip().rstrip(",").rstrip("]")  # the end is missing where a process ended at once
    tensors, found = {}, []
    for event in json.loads(text + "]"):
        if event.get("name") == "process_name":
            tensors[event["pid"]] = event["args"].get("name")
        elif event.get("ph") == "B" and event["name"] in ("ALLREDUCE", "ALLTOALL", "ALLGATHER", "BROADCAST"):
            found.append((event["ts"], event["name"], tensors[event["pid"]]))
    return [(operation, tensor) for _, operation, tensor in sorted(found)]


def of_steps(found):
    """Collectives by operation, from one sum of the same tensor to the next: those of each step but the last."""
    marks = [place for place, one in enumerate(found) if one == next(one for one in found if one[0] == "ALLREDUCE")]
    return [collections.Counter(operation for operation, _ in found[first:last])
            for first, last in zip(marks, marks[1:])]


@pytest.mark.parametrize("tables", [
    dict(list(MANY.items())[:3]), pytest.param({"user": {}}, marks=pytest.mark.long),
    pytest.param(MANY, marks=pytest.mark.long)], ids=["3 tables", "1 table", "26 tables"])
def test_a_step_makes_two_exchanges_and_those_of_the_program(tmp_path, tables):
    features = {name: {"table": name, "width": 1} for name in tables}
    case = {"tables": tables, "features": features, "steps": STEPS}
    ranked_runs.train(tmp_path / "run", 2, case, HOROVOD_TIMELINE=tmp_path / "timeline").require_good_end()
    steps = of_steps(collectives(tmp_path / "timeline"))
    assert len(steps) == STEPS - 1
    # The loss, and weights and biases of two layers. A batch whose keys are late has an exchange more.
    assert [statistics.median(step[kind] for step in steps) for kind in ("ALLTOALL", "ALLREDUCE")] == [2, 5]
    assert sum(step["ALLTOALL"] for step in steps) < 2.5 * STEPS
    assert {kind for step in steps for kind in step} == {"ALLTOALL", "ALLREDUCE"}
