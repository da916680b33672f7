"""Hosts of ranks: numbers of ranks, and scripts that print the hosts before each start."""
import click
import pytest

from ascpipe.cli.hosts import GivenHosts, HostScript, Place, RankCount, RankCountType, filled
from ascpipe.errors import RanksError
from tests.support.waiting import wait_until


@pytest.mark.parametrize("text, count", [
    ("1", (1, 1)), ("4", (4, 4)), ("2:4", (2, 4)), ("3:3", (3, 3)), ("4095", (4095, 4095))])
def test_a_number_of_ranks_has_a_minimum_and_a_maximum(text, count):
    assert RankCountType().convert(text, None, None) == count


@pytest.mark.parametrize("text", ["0", "4:2", "-1", "2:", ":2", "2:4:6", "x", "", "4096", "1:4096", "2.5"])
def test_other_numbers_of_ranks_are_wrong_usage(text):
    with pytest.raises(click.BadParameter, match="is not a number of ranks"):
        RankCountType().convert(text, None, None)


def test_hosts_get_at_most_as_many_ranks_as_they_can_run():
    places = [Place("a", 3), Place("b", 2), Place("c", 1)]
    assert filled(places, 4) == [("a", 3), ("b", 1)]
    assert filled(places, 9) == places


def test_given_hosts_run_as_many_ranks_as_they_can_within_the_limits():
    assert GivenHosts("a:2,b").chosen(RankCount(2, 8)) == [("a", 2), ("b", 1)]
    assert GivenHosts("a:2,b:2").chosen(RankCount(2, 3)) == [("a", 2), ("b", 1)]
    assert GivenHosts(None).chosen(RankCount(2, 3)) == [("localhost", 3)]
    with pytest.raises(click.BadParameter, match="a:2,b can run 3 of 4 ranks"):
        GivenHosts("a:2,b").chosen(RankCount(4, 8))


class Passing:
    """Time that passes ``speed`` times as fast while the code under test waits. The first wait calls ``then``."""

    def __init__(self, then=lambda: None, speed=1):
        self.now = 0.0
        self.speed = speed
        self.then = [then]
        self.said = []

    def sleep(self, seconds):
        self.now += self.speed * seconds
        if self.then:
            self.then.pop()()


@pytest.fixture
def script(tmp_path):
    """Returns a function that writes the script, and one that makes a HostScript of it with a Passing time."""
    path = tmp_path / "hosts.sh"

    def write(lines):
        path.write_text("#!/bin/sh\n" + lines)
        path.chmod(0o755)

    def find(least, most, time, silent=lambda hosts: {}):
        return HostScript(str(path), time.said.append, time.sleep, lambda: time.now, silent).chosen(
            RankCount(least, most))

    write.find = find
    return write


def test_a_script_prints_the_hosts_of_each_start(script):
    script("echo a:2; echo; echo '  b '")
    time = Passing()
    assert script.find(2, 8, time) == [("a", 2), ("b", 1)]
    assert script.find(2, 2, time) == [("a", 2)]
    assert time.said == [] and time.now == 0


def test_too_few_hosts_are_awaited_and_reported_once(script):
    script("echo a:1")
    time = Passing(lambda: script("echo a:1; echo b:1"))
    assert script.find(2, 4, time) == [("a", 1), ("b", 1)]
    (said,) = time.said
    assert "names hosts for 1 rank, but at least 2 are needed; trying again for 600 s" in said
    assert time.now == 5


def test_hosts_that_do_not_answer_are_dropped_and_named_once(script):
    script("echo a:1; echo b:2; echo c:1")
    time = Passing()
    assert script.find(2, 8, time, lambda hosts: {"b": "no route"}) == [("a", 1), ("c", 1)]
    assert time.said == ["no ranks start on hosts that do not answer: b (no route)"] and time.now == 0


def test_too_few_hosts_that_answer_are_awaited(script):
    script("echo a:1; echo b:1")
    answers = [{"b": "no route"}, {"b": "no route"}, {}]
    time = Passing()
    assert script.find(2, 8, time, lambda hosts: answers.pop(0)) == [("a", 1), ("b", 1)]
    assert len(time.said) == 2 and time.now == 10
    assert "hosts that answer can run 1 rank, but at least 2 are needed; trying again for 600 s" in time.said[1]
    time = Passing(speed=30)
    with pytest.raises(RanksError, match="hosts that answer can run 0 ranks"):
        script.find(1, 8, time, lambda hosts: dict.fromkeys(hosts, "no route"))


@pytest.mark.parametrize("lines, words", [
    ("echo a:1", "names hosts for 1 rank, but at least 2 are needed for 600 s"),
    ("", "names hosts for 0 ranks"),
    ("echo a:0", "printed a wrong line: 'a:0' is not HOST or HOST:N"),
    ("echo -oProxyCommand=x:2", "printed a wrong line"),
    ("printf '\\377\\376:2'", "printed a wrong line"),
    ("echo 'no route to the scheduler' >&2; exit 3", "failed with exit code 3: 'no route to the scheduler'")])
def test_a_script_that_finds_no_hosts_is_an_error_after_ten_minutes(script, lines, words):
    script(lines)
    time = Passing(speed=30)
    with pytest.raises(RanksError) as error:
        script.find(2, 4, time)
    assert words in str(error.value) and "no ranks were started" in str(error.value)
    assert 600 <= time.now < 750 and len(time.said) == 1


def test_a_script_that_cannot_be_run_is_an_error(tmp_path):
    time = Passing(speed=30)
    with pytest.raises(RanksError, match="cannot be run: No such file"):
        HostScript(str(tmp_path / "none"), time.said.append, time.sleep, lambda: time.now).chosen(RankCount(2, 2))


def test_children_of_a_script_end_with_it(script, tmp_path):
    script("sleep 1000 &\necho $! > {}; echo a:2\n".format(tmp_path / "pid"))
    assert script.find(2, 2, Passing()) == [("a", 2)]
    with open(str(tmp_path / "pid")) as file:
        pid = int(file.read())
    wait_until(lambda: not (tmp_path.__class__("/proc") / str(pid)).exists() or
               "Z" in (tmp_path.__class__("/proc") / str(pid) / "stat").read_text().split(")")[1])
