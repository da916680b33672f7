"""Scrapes while a program trains have the figures of ``ascpipe status --json``."""
import json

import pytest

from ascpipe.metrics import figures
from tests.support.commands import ascpipe
from tests.support.daemons import DaemonProcess
from tests.support.programs import running
from tests.support.scraping import free_port, numbers_of, scrape
from tests.support.waiting import wait_until
from tests.support.watched_training import trained_by

pytestmark = [pytest.mark.timeout_s(180), pytest.mark.usefixtures("forked_programs")]

COUNTERS = {metric.name for metric in figures.METRICS if metric.kind == figures.COUNTER}
GROWING = ("ascpipe_table_hits_total", "ascpipe_table_misses_total", "ascpipe_table_loads_total",
           "ascpipe_table_batches_total", "ascpipe_table_ids_total", "ascpipe_ring_trained_total",
           "ascpipe_ring_submitted_total", "ascpipe_ring_ids_total")
SCRAPES = 3


@pytest.fixture
def port():
    return free_port()


@pytest.fixture
def daemon(port):
    made = DaemonProcess("watched", metrics_port=port, ring_bytes=running.RING_BYTES)
    yield made
    made.end()


def status_of(name):
    """What ``ascpipe status --json`` prints, as a scrape would have it."""
    done = ascpipe("status", "--json", "--name", name)
    assert done.returncode == 0, done.stderr
    return numbers_of(json.loads(done.stdout))


def counters(found):
    return {key: number for key, number in found.items() if key[0] in COUNTERS}


def ordered(first, second):
    """No counter of the first is greater than in the second."""
    before, after = counters(first), counters(second)
    assert set(before) == set(after)
    return all(before[key] <= after[key] for key in before)


def newer(port, found):
    """The first scrape that is not of before: answers are given again for half a second."""
    return wait_until(lambda: next((now for now in [scrape(port)] if ordered(found, now)), None))


def grown(first, second):
    return [name for name in GROWING if sum(counters(first)[key] for key in counters(first) if key[0] == name)
            < sum(counters(second)[key] for key in counters(second) if key[0] == name)]


def test_scrapes_during_training_lie_between_what_status_says_before_and_after(daemon, port):
    with trained_by("watched"):
        scraped = [status_of("watched")]
        for _ in range(SCRAPES):
            scraped.append(newer(port, status_of("watched")))
            assert ordered(scraped[-1], status_of("watched"))
            assert ordered(scraped[-2], scraped[-1]), "a counter has gone back"
        assert grown(scraped[0], scraped[-1]) == list(GROWING)


def test_a_scrape_while_nothing_is_trained_is_what_status_says(daemon, port):
    with trained_by("watched") as program:
        program.pause()
        untimed = set_aside(status_of("watched"))
        wait_until(lambda: set_aside(scrape(port)) == set_aside(status_of("watched")))
        assert {name for name, *_ in untimed} >= {"ascpipe_table_hits_total", "ascpipe_ring_depth", "ascpipe_up"}
        program.go_on()


def set_aside(found):
    """Without what changes while nothing is trained: time, and processes that look now and then."""
    return {key: number for key, number in found.items()
            if key[0] != "ascpipe_uptime_seconds" and not key[0].startswith("ascpipe_process_")}


def test_counters_begin_anew_with_the_next_session(daemon, port):
    with trained_by("watched"):
        first = wait_until(lambda: next((now for now in [scrape(port)] if total(now, "table_batches") > 60), None))
    with trained_by("watched") as program:
        program.pause()
        second = wait_until(lambda: next((now for now in [scrape(port)] if run_of(now) not in (0, run_of(first))
                                          and total(now, "table_batches") > 0), None))
        assert total(second, "table_batches") < total(first, "table_batches")
        program.go_on()


def total(found, name):
    return sum(number for key, number in found.items() if key[0] == "ascpipe_{}_total".format(name))


def run_of(found):
    return next(number for key, number in found.items() if key[0] == "ascpipe_session_run")
