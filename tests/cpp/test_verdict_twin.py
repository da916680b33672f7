"""The op library computes the same verdicts as the model, tests/model/verdicts.py."""
import itertools
import random
import subprocess

import pytest

from tests.cpp.test_core import HERE, shipped
from tests.model import verdicts

KINDS = [verdicts.GATE, verdicts.FORWARD, verdicts.BACKWARD, verdicts.READ, verdicts.ASK, verdicts.IDLE,
         verdicts.LEAVE, verdicts.BROKEN, verdicts.BUSY]  # by PeerKind, from 1 on
VERDICTS = [verdicts.BEGIN, verdicts.OVER, verdicts.GO, verdicts.ROWS, verdicts.APPLY, verdicts.TURN, verdicts.ASKED,
            verdicts.AGAIN, verdicts.LEFT, verdicts.FAIL, verdicts.POISON]  # by VerdictKind
CAUSE = "its step fails"
WITH_BATCH = KINDS[:4]


@pytest.fixture(scope="module")
def print_verdicts():
    program = shipped("print_verdicts", [HERE / "print_verdicts.cc"])
    yield program
    program.unlink()


def all_headers():
    """Yield headers of each kind, with two values for each other field."""
    for kind in KINDS:
        has_batch = kind in WITH_BATCH
        batches = itertools.product((0, 1), (1, 2), (1, 2)) if has_batch else [(0, 0, 0)]
        exists = (True, False) if kind == verdicts.GATE else (True,)
        for batch, there, cause, changes in itertools.product(batches, exists, ("", CAUSE), (0, 1)):
            yield verdicts.Header(kind, batch, there, cause, (), changes)


def require_equal_verdicts(program, cases):
    lines = []
    for headers in cases:
        words = [len(headers)]
        for header in headers:
            words += [KINDS.index(header.kind) + 1, *header.batch, int(header.exists), header.changes,
                      int(bool(header.cause))]
        lines.append(" ".join(map(str, words)) + "\n")
    done = subprocess.run([str(program)], check=True, input="".join(lines), stdout=subprocess.PIPE, text=True)
    printed = done.stdout.splitlines()
    assert len(printed) == len(cases)
    met = set()
    for headers, line in zip(cases, printed):
        number, stream, cause = line.split(" ", 2)
        wanted = verdicts.decide(headers)
        met.add(wanted.kind)
        assert VERDICTS[int(number)] == wanted.kind, headers
        if wanted.kind == verdicts.TURN:
            assert int(stream) == wanted.batch[0], headers
        if any(header.cause for header in headers):
            assert cause == wanted.cause, headers
        else:
            assert bool(cause) == bool(wanted.cause), headers
    return met


@pytest.mark.timeout_s(240)
def test_verdicts_over_any_two_headers_are_those_of_the_model(print_verdicts):
    cases = list(itertools.product(all_headers(), repeat=2))
    assert require_equal_verdicts(print_verdicts, cases) == set(VERDICTS)


@pytest.mark.timeout_s(240)
@pytest.mark.parametrize("ranks", [3, 4])
def test_verdicts_over_random_headers_of_more_ranks_are_those_of_the_model(print_verdicts, ranks):
    numbers = random.Random(ranks)
    headers = list(all_headers())
    cases = []
    for _ in range(30000):  # most cases have nearly equal headers, because headers that differ on all ranks just fail
        case = [numbers.choice(headers)] * ranks
        for _ in range(numbers.randrange(ranks + 1)):
            case[numbers.randrange(ranks)] = numbers.choice(headers)
        cases.append(case)
    assert require_equal_verdicts(print_verdicts, cases) == set(VERDICTS)
