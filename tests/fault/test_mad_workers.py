"""A worker that has gone mad writes anything into shared memory: the trainer ends its session, never by a signal."""
import collections
import re
import sys

import pytest

from tests.support.programs import running

pytestmark = [pytest.mark.timeout_s(240), pytest.mark.usefixtures("forked_programs")]

KINDS = ("evaluated", "tiers", "disk", "everywhere")
RUNS = 500  #: of the long form
#: a code, or the sentence of a claim that is refused
ENDS = re.compile(r"E[1-9][0-9][0-9]$|trained$|(table '|ticket )")


def ends(kind, seeds):
    """How the sessions of one trainer ended; none of them by its death, else it could not say so."""
    runs = running.run("mad_worker", *("mad_frames:{},{}".format(kind, seed) for seed in seeds), ends_within_s=1500.0,
                       ring_frames=16, wait_timeout_s=4)
    assert len(runs) == len(seeds)
    unnamed = [run for run in runs if not ENDS.match(run["ended"])]
    assert unnamed == []
    assert not [run for run in runs if run["ended"] == "E110"], "the daemon has died"
    return collections.Counter(run["ended"][:40] for run in runs), sum(run["stores"] for run in runs)


@pytest.mark.parametrize("kind", [
    kind if kind in ("everywhere", "disk") else pytest.param(kind, marks=pytest.mark.long) for kind in KINDS])
def test_wild_stores_end_the_session_with_a_code_and_the_next_one_trains(kind, seed):
    ended, stores = ends(kind, range(seed, seed + 6))
    assert stores > 6
    assert sum(ended.values()) > ended["trained"], "no run met its wild stores"


@pytest.mark.long
@pytest.mark.timeout_s(1600)
@pytest.mark.parametrize("kind", KINDS)
def test_five_hundred_runs_with_wild_stores_end_without_a_signal(kind, seed):
    ended, stores = ends(kind, range(seed, seed + RUNS // len(KINDS)))
    sys.stdout.write("{}: {} stores, {}\n".format(kind, stores, dict(ended)))
