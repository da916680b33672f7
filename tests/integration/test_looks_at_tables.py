"""``ascpipe inspect`` and ``ascpipe hotkeys`` beside a program that trains."""
import collections
import json

import pytest

from ascpipe import names
from ascpipe.control import client, messages
from tests.support.commands import ascpipe
from tests.support.daemons import DaemonProcess
from tests.support.programs import running
from tests.support.waiting import wait_until
from tests.support.watched_training import DEVICE_ROWS, KEYS, ids, trained_by

pytestmark = [pytest.mark.timeout_s(180), pytest.mark.usefixtures("forked_programs")]


def told(*arguments):
    done = ascpipe(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def program():
    daemon = DaemonProcess("looks", ring_bytes=running.RING_BYTES, spared=True)
    try:
        with trained_by("looks") as training:
            yield training
    finally:
        daemon.end()


@pytest.fixture
def paused(program):
    """The number of batches that were trained, while no step runs."""
    wait_until(lambda: batches() > 60, 60)
    program.pause()
    wait_until(lambda: batches() == inspected([0])["keys"][0]["as_of"] & 0xFFFFFFFF)
    yield batches()
    program.go_on()


def batches():
    (table,) = client.ask(names.run_dir("looks"), messages.Status())["tables"]
    return table["batches"]


def inspected(keys):
    return told("inspect", "ids", *map(str, keys))


def expected(trained):
    """How often each key occurred in so many batches, and the last one that had it."""
    source, counts, last = ids(), collections.Counter(), {}
    for number in range(trained):
        batch = source[number % len(source)]
        counts.update(batch)
        last.update(dict.fromkeys(batch, number + 1))
    return counts, last


def test_between_two_steps_each_key_is_told_as_training_has_left_it(paused):
    counts, last = expected(paused)
    seen = inspected(range(KEYS + 1))["keys"]
    assert {one["key"]: one["count"] for one in seen if one["known"]} == dict(counts)
    assert {one["key"]: one["last"] & 0xFFFFFFFF for one in seen if one["known"]} == last
    tiers = collections.Counter(one["tier"] for one in seen if one["known"])
    assert tiers["device"] == DEVICE_ROWS and set(tiers) == {"device", "host"}
    slots = [one["place"] for one in seen if one["tier"] == "device"]
    assert len(set(slots)) == len(slots) and set(slots) <= set(range(DEVICE_ROWS))
    assert {key: seen[-1][key] for key in ("known", "tier", "place", "pinned_by")} == {
        "known": False, "tier": None, "place": None, "pinned_by": []}


def test_between_two_steps_the_keys_of_the_next_batches_are_pinned(paused):
    source = ids()
    following = set(source[paused % len(source)])
    seen = inspected(range(KEYS))["keys"]
    pinned = {one["key"] for one in seen if (paused + 1) in [ticket & 0xFFFFFFFF for ticket in one["pinned_by"]]}
    assert pinned == following


def test_between_two_steps_the_hottest_keys_are_those_that_training_has_counted(paused):
    counts, _ = expected(paused)
    wanted = sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:7]
    found = told("hotkeys", "ids", "-n", "7")
    assert (found["by"], found["batches"]) == ("counts", None)
    assert [(one["key"], one["count"]) for one in found["keys"]] == wanted
    assert found["occurrences"] == sum(counts.values())
    shares = ["{:.2f} %".format(100 * count / sum(counts.values())) for _, count in wanted]
    printed = ascpipe("hotkeys", "ids", "-n", "7").stdout
    assert all(share in printed for share in shares)


def test_while_it_trains_counts_only_grow_and_training_goes_on(program):
    before = batches()
    first = inspected(range(0, KEYS, 7))["keys"]
    hot = told("hotkeys", "ids")["keys"]
    second = inspected(range(0, KEYS, 7))["keys"]
    assert all(one["count"] <= two["count"] and one["as_of"] <= two["as_of"] for one, two in zip(first, second))
    counts, _ = expected(second[0]["as_of"] & 0xFFFFFFFF)
    assert second[0]["count"] == counts[second[0]["key"]]
    assert [one["count"] for one in hot] == sorted((one["count"] for one in hot), reverse=True)
    assert wait_until(lambda: batches() > before + 20)


def test_a_sample_says_that_it_is_one(program):
    found = told("hotkeys", "ids", "--sample", "0.5", "-n", "3")
    assert (found["by"], found["seconds"], len(found["keys"])) == ("sample", 0.5, 3) and found["batches"] > 0
    text = ascpipe("hotkeys", "ids", "--sample", "0.2", "-n", "3").stdout
    assert text.startswith("table 'ids', ") and "by a sample of " in text and "batches within 0.2 s" in text
    assert "by the number of occurrences that the table has counted" in ascpipe("hotkeys", "ids").stdout


def test_as_text_each_key_has_a_row_and_the_batch_is_named(program):
    text = ascpipe("inspect", "ids", "3", "-5").stdout
    assert text.startswith("table 'ids' after batch ") and "device slot" in text + ascpipe(
        "inspect", "ids", *map(str, range(KEYS))).stdout
    assert [line.split()[:2] for line in text.splitlines() if line.split()[:1] in (["3"], ["-5"])] == [
        ["3", "yes"], ["-5", "no"]]


def test_a_table_that_is_not_there_and_a_key_that_is_none_are_wrong_usage(program):
    other = ascpipe("inspect", "user", "1")
    assert (other.returncode, "there is no table 'user'; there is ids" in other.stderr) == (2, True)
    assert ascpipe("hotkeys", "user").returncode == 2
    assert ascpipe("inspect", "ids").returncode == 2
    assert ascpipe("inspect", "ids", "x").returncode == 2
    assert ascpipe("inspect", "ids", str(2**63)).returncode == 2
