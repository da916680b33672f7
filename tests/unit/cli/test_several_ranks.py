"""What is refused before ranks are started, and how they are; tests/ranks starts them."""
import socket
import sys

import click
import pytest

from ascpipe.cli import horovodrun, several_ranks
from ascpipe.cli.hosts import GivenHosts, RankCount
from ascpipe.cli.several_ranks import Ranks
from ascpipe.errors import HorovodMissingError, HorovodVersionError, RanksError
from ascpipe.ranks import check_horovod
from tests.support import tree

HERE = "machine.test"


@pytest.fixture
def network(monkeypatch):
    """Names and their addresses; this machine has 10.0.0.1 and is called machine.test."""
    known = {HERE: "10.0.0.1", "localhost": "127.0.0.1", "other": "10.0.0.2", "third": "10.0.0.3"}

    def find(name):
        if name not in known:
            raise socket.gaierror("Name or service not known")
        return known[name]

    monkeypatch.setattr(several_ranks, "check_horovod", lambda: None)
    monkeypatch.setattr(socket, "gethostname", lambda: HERE)
    monkeypatch.setattr(socket, "gethostbyname", find)
    monkeypatch.setattr("psutil.net_if_addrs", lambda: {
        name: [type("Address", (), {"address": address})] for name, address in (("lo", "127.0.0.1"),
                                                                                ("eth0", "10.0.0.1"))})
    return known


def made(count, hosts, mpi=False):
    return Ranks(["python", "program.py", "x y"], RankCount(count, count), GivenHosts(hosts), mpi)


@pytest.mark.parametrize("hosts, mpi, engine, places", [
    (None, False, "--gloo", "localhost:3"), ("other:2,third:2", False, "--gloo", "other:2,third:1"),
    ("other:5,third:2", False, "--gloo", "other:3"),
    ("machine.test,other,third", True, "--mpi", "machine.test:1,other:1,third:1")])
def test_horovod_s_launcher_gets_the_places_and_the_program(network, hosts, mpi, engine, places):
    assert made(3, hosts, mpi).command() == [
        sys.executable, str(tree.ROOT / "ascpipe/cli/horovodrun.py"), engine, "--disable-cache", "-np", "3", "-H",
        places, "python", "program.py", "x y"]


@pytest.mark.parametrize("hosts", ["", "a:0", "a:x", "-oProxyCommand=x:1", "a b", "a;b", "a:1,", "other:1"])
def test_hosts_that_are_none_or_too_few_are_wrong_usage(network, hosts):
    with pytest.raises(click.BadParameter):
        made(2, hosts)


@pytest.mark.parametrize("count, hosts", [(2, None), (3, "other:1,third:2")])
def test_ranks_of_a_machine_do_not_share_a_daemon(network, count, hosts):
    with pytest.raises(click.BadParameter, match="Use 'mine-{local_rank}'"):
        Ranks(["python", "program.py"], RankCount(count, count), GivenHosts(hosts), False, "mine")
    Ranks(["python", "program.py"], RankCount(count, count), GivenHosts(hosts), False, "mine-{local_rank}")


def test_a_daemon_of_each_machine_serves_its_only_rank(network):
    Ranks(["python", "program.py"], RankCount(2, 2), GivenHosts("other:1,third:1"), False, "mine")


def test_a_host_without_an_address_is_refused(network):
    with pytest.raises(RanksError, match="host nowhere has no address"):
        made(2, "other:1,nowhere:1")


@pytest.mark.parametrize("hosts", ["machine.test:1,other:1", "other:2", "other:1,third:1"])
def test_this_machine_s_name_must_not_lead_to_itself_alone_where_there_are_others(network, hosts):
    made(2, hosts)
    network[HERE] = "127.0.1.1"
    with pytest.raises(RanksError, match="machine.test,? resolves to 127.0.1.1"):
        made(2, hosts)
    del network[HERE]
    with pytest.raises(RanksError, match="machine.test, (resolves|has no address)|host machine.test has no address"):
        made(2, hosts)


def test_alone_this_machine_may_be_called_as_it_likes(network):
    network[HERE] = "127.0.0.1"
    made(2, None)
    made(2, "localhost:2")
    made(2, HERE + ":2")


def test_localhost_beside_another_machine_is_refused(network):
    with pytest.raises(RanksError, match="host localhost resolves to 127.0.0.1, which other machines cannot reach"):
        made(2, "localhost:1,other:1")


def test_horovod_is_asked_for_before_anything_begins(monkeypatch):
    monkeypatch.setitem(sys.modules, "horovod", None)
    with pytest.raises(HorovodMissingError, match="make ranks"):
        Ranks(["program"], RankCount(2, 2), GivenHosts(None), False)
    monkeypatch.setitem(sys.modules, "horovod", type(sys)("horovod"))
    sys.modules["horovod"].__version__ = "0.27.0"
    with pytest.raises(HorovodVersionError, match="0.27.0"):
        check_horovod()


@pytest.mark.parametrize("code, text", [
    (7, "exited with code 7"), (137, "was killed by SIGKILL"), (255, "exited with code 255")])
def test_how_a_rank_ended_is_told_by_the_signal_s_name(code, text):
    assert several_ranks._ending(code) == text


@pytest.mark.parametrize("said, expected", [
    (b"RuntimeError: ...\nProcess name: 1\nExit code: 137\n", (137, 1)),
    (b"  Process name: [[12325,1],3]\n  Exit code:    7\n-----\n", (7, 3)),
    (b"mpirun noticed that process rank 2 with PID 0 on node vm exited on signal 9 (Killed).\n", (137, 2)),
    (b"Process name: 1\nExit code: 1\nrestarted\nProcess name: 0\nExit code: 3\n", (3, 0)), (b"", (5, None))])
def test_the_launcher_s_last_words_name_the_rank_that_failed_first(said, expected):
    assert several_ranks._failure(5, said) == expected


def test_hosts_that_the_launcher_cannot_reach_are_named():
    assert several_ranks.without_ssh({"w-2.workers": "No route to host", "w-3": "no answer"}) == (
        "no rank was started: host w-2.workers cannot be reached by ssh (No route to host); host w-3 cannot be reached "
        "by ssh (no answer)")
    assert "answers now" in several_ranks.without_ssh({})


@pytest.mark.parametrize("found, chosen", [
    ({"lo", "eth0"}, {"eth0"}), ({"lo"}, {"lo"}), ({"eth0", "eth1"}, {"eth0", "eth1"}), ({"gone", "lo"}, {"gone"})])
def test_ranks_of_another_machine_do_not_connect_by_the_loopback_interface(monkeypatch, found, chosen):
    monkeypatch.setattr("psutil.net_if_addrs", lambda: {
        name: [type("Address", (), {"address": address})] for name, address in (
            ("lo", "127.0.0.1"), ("eth0", "10.0.0.1"), ("eth1", "10.0.1.1"))})
    assert horovodrun.without_loopback(lambda *_: found)("settings", ["other"]) == chosen
