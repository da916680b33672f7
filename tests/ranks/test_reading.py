"""Ranks read disjoint parts of the files: every record once per epoch, also if their number changes in an epoch."""
import json
import os
import sys

import pytest

from tests.support import tfrecords
from tests.support.ascend_programs import PROGRAMS
from tests.support.examples import example, feature
from tests.support.ranked_runs import ended
from tests.support.several_ranks import horovodrun, needs_horovod

pytestmark = [needs_horovod, pytest.mark.timeout_s(280)]

COUNT = 77
SCRIPT = os.path.join(PROGRAMS, "reading.py")


@pytest.fixture
def files(tmp_path):
    records = [example([("number", feature("int64", [number])), ("user", feature("int64", [number % 37, number % 11])),
                        ("item", feature("int64", [number * place % 53 for place in range(number % 5)])),
                        ("label", feature("float32", [number % 2]))]) for number in range(COUNT)]
    return [tfrecords.write(tmp_path / "{}.tfrecord".format(name), part) for name, part in
            (("a", records[:30]), ("b", records[30:]))]


def run(folder, files, ranks, **case):
    """Lines of each rank by step: record numbers."""
    out = folder / "{}-{}".format(ranks, case.get("until", "end"))
    words = json.dumps({"way": "session", "folder": str(folder / "saved"), "files": files, "steps": -1, "every": 2,
                        "out": str(out), **case})
    command = horovodrun(ranks, SCRIPT, words) if ranks > 1 else [sys.executable, SCRIPT, words]
    code, said, err = ended(command)
    assert code == 0, said + err
    found = []
    for rank in range(ranks):
        lines = [line.split() for line in (folder / "{}.{}".format(out.name, rank)).read_text().splitlines()
                 if line[0].isdigit()]
        found.append({int(step): list(map(int, numbers.split(","))) for step, numbers, _ in lines})
    assert len({tuple(one) for one in found}) == 1, "ranks have different steps"
    return found


def numbers_of(runs):
    return [number for found in runs for one in found for numbers in one.values() for number in numbers]


def test_two_ranks_read_every_record_once_per_epoch(tmp_path, files):
    first, other = run(tmp_path, files, 2)
    assert sorted(first) == list(range(1, 16))
    for epoch in range(3):
        steps = range(1 + 5 * epoch, 6 + 5 * epoch)
        mine, theirs = ([number for step in steps for number in one[step]] for one in (first, other))
        assert sorted(mine + theirs) == list(range(COUNT))


def test_a_second_graph_continues_on_all_ranks_if_rank_0_restores(tmp_path, files):
    first, other = run(tmp_path, files, 2, way="two_sessions", until=7)
    assert sorted(first) == list(range(1, 16))
    numbers = [number for one in (first, other) for taken in one.values() for number in taken]
    assert sorted(numbers) == sorted(3 * list(range(COUNT)))


def test_other_numbers_of_ranks_continue_in_the_middle_of_an_epoch(tmp_path, files):
    """2 ranks, then 3, then 1. A background save comes before each save."""
    runs = [run(tmp_path, files, 2, until=7), run(tmp_path, files, 3, until=9), run(tmp_path, files, 1)]
    assert [min(found[0]) for found in runs] == [1, 8, 10]
    numbers = numbers_of(runs)
    missing = 3 * COUNT - len(numbers)
    assert 0 <= missing <= 2, missing
    assert max(map(numbers.count, range(COUNT))) == 3
    first_epoch = [number for one in runs[0] for step in range(1, 6) for number in one[step]]
    assert sorted(first_epoch) == list(range(COUNT))
