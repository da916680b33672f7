"""A trainer finds a daemon, starts a session and leaves; workers are stand-ins."""
import os
import signal
import socket
from pathlib import Path

import numpy as np
import psutil
import pytest

from ascpipe import names
from ascpipe.control import fdsocket, messages, trainer_link
from ascpipe.control.client import ask
from ascpipe.errors import (
    AlreadyRunsError,
    BusyError,
    MessageError,
    NotRunningError,
    PeerRefusedError,
    RunDirError,
    VersionError,
    WrongStateError,
)
from ascpipe.layout import structs
from ascpipe.shm import segment
from tests.support.daemons import LAYOUT, RING_BYTES, DaemonProcess, is_alive, small_session, use_standins
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def _standins(monkeypatch):
    use_standins(monkeypatch)


@pytest.fixture
def daemon():
    process = DaemonProcess("unit", workers=2)
    yield process
    process.end()


@pytest.fixture
def connect():
    links = []

    def open_link(name=None):
        links.append(trainer_link.connect(name, layout=LAYOUT))
        return links[-1]

    yield open_link
    for link in links:
        link.close()


def hash_seeds(name, connect, **settings):
    """Of the workers of a daemon, in the order of their start, with one that took a killed one's place at the end."""
    daemon = DaemonProcess(name, workers=2, **settings)
    try:
        connect(name).start(*small_session())
        killed = daemon.wait_attached()["table", 0]["pid"]
        seeds = [hash_seed(daemon, worker) for worker in ("key-0", "key-1", "table-0")]
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: daemon.workers("table")[0]["pid"] not in (None, killed))
        daemon.wait_attached()
        return [*seeds, hash_seed(daemon, "table-0")]
    finally:
        daemon.end()


def hash_seed(daemon, worker):
    said, seed = Path(daemon.run.worker_log(worker)).read_text().rsplit(None, 1)
    assert said == "hash seed"
    return int(seed)


def test_all_workers_of_a_daemon_have_one_hash_seed_which_no_other_daemon_has(connect, monkeypatch):
    monkeypatch.delenv("ASCPIPE_HASH_SEED")
    one, other = hash_seeds("one", connect), hash_seeds("other", connect)
    assert (len(set(one)), len(set(other)), len({*one, *other})) == (1, 1, 2)
    assert max(*one, *other) >= 1 << 32  # of 64 bits: less, twice, in one of 2^64 runs


def test_a_hash_seed_can_be_given(connect):
    assert hash_seeds("one", connect, hash_seed=77) == [77] * 4


def header(piece, struct, offset=0, count=1):
    return segment.map(*piece)[offset:offset + count * struct.itemsize].view(struct)


def test_headers_say_what_the_trainer_asked_for(daemon, connect):
    link = connect("unit")
    pieces = link.start(*small_session("user", "item"))
    session = header(pieces.session, structs.SESSION)[0]
    assert (session["version"], session["magic"], session["run"]) == (structs.VERSION, structs.MAGIC, link.run)
    ring = header(pieces.streams[0], structs.RING)[0]
    assert (ring["version"], ring["stream"], ring["channel"], ring["table_count"]) == (structs.VERSION, 0, 0, 2)
    assert (ring["frame_count"], ring["look_ahead"], ring["plan_ahead"]) == (64, 16, 8)
    assert ring["arena_bytes"] >= RING_BYTES
    assert ring["arena_offset"] + ring["arena_bytes"] == pieces.streams[0][1]
    places = header(pieces.streams[0], structs.RING_TABLE, int(ring["tables_offset"]), 2)
    assert places["table"].tolist() == [0, 1]
    assert places["worker"].tolist() == [0, 0]
    table = header(pieces.tables[1], structs.TABLE)[0]
    assert (table["version"], table["table"], table["dim"], table["device_rows"]) == (structs.VERSION, 1, 4, 100)
    assert table["entry_capacity"] == 100 + (1 << 22)
    slots = header(pieces.tables[1], np.dtype("<i4"), int(table["slots_offset"]), 100)
    assert (slots == -1).all()


def test_status_shows_the_session_and_who_is_attached(daemon, connect):
    idle = daemon.status()
    assert (idle["state"], idle["tables"], idle["rings"], idle["waits"]) == ("idle", [], [], [])
    link = connect("unit")
    link.start(*small_session("user"))
    daemon.wait_attached()
    status = link.status()
    assert (status["state"], status["trainer"]["pid"], status["trainer"]["run"]) == ("serving", os.getpid(), link.run)
    assert [(worker["kind"], worker["index"]) for worker in status["workers"]] == [("key", 0), ("key", 1), ("table", 0)]
    assert [(ring["stream"], ring["channel"], ring["depth"]) for ring in status["rings"]] == [
        (0, "train", 0), (1, "eval", 0)]
    assert [(table["name"], table["rows"], table["hit_rate"]) for table in status["tables"]] == [("user", 0, None)]
    assert [wait["who"] for wait in status["waits"]] == [
        "trainer", "pump", "key worker 0", "key worker 1", "table worker 0"]


def test_one_trainer_after_the_other_is_served_with_fresh_workers(daemon, connect):
    first = connect("unit")
    first.start(*small_session())
    before = {key: worker["pid"] for key, worker in daemon.wait_attached().items()}
    first.close()
    assert daemon.status()["state"] == "idle"
    assert not any(is_alive(pid) for pid in before.values())
    second = connect("unit")
    assert second.run != first.run
    second.start(*small_session("other"))
    daemon.wait_attached()
    assert [table["name"] for table in second.status()["tables"]] == ["other"]


def test_a_second_trainer_is_refused_by_name_and_pid_and_so_is_one_of_another_layout(daemon, connect):
    with pytest.raises(VersionError, match="E220.*layout 1f"):
        trainer_link.connect("unit", layout=0x1F)
    connect("unit")
    with pytest.raises(BusyError, match="E210.*pid {} ".format(os.getpid())):
        connect("unit")


def test_the_named_daemon_must_be_there(connect):
    with pytest.raises(NotRunningError, match="E212.*'nobody'"):
        connect("nobody")


def test_the_environment_names_a_daemon_too(daemon, connect, monkeypatch):
    monkeypatch.setenv("ASCPIPE_NAME", "unit")
    assert connect().name == "unit"


def test_without_a_name_a_private_daemon_comes_and_goes(connect):
    link = connect()
    assert link.private and names.is_private_name(link.name)
    link.start(*small_session())
    run, pid = names.run_dir(link.name), link.daemon_pid
    assert is_alive(pid) and os.path.exists(run.lock)
    link.close()
    assert not is_alive(pid) and not os.path.exists(run.path)
    link.close()


def test_without_a_name_the_default_daemon_is_taken_if_it_is_free(connect):
    default = DaemonProcess("default")
    try:
        first = connect()
        assert (first.name, first.private) == ("default", False)
        second = connect()
        assert second.private
    finally:
        default.end()


def test_a_default_directory_that_is_not_ours_alone_is_not_used(connect):
    names.make_private_dir(names.base_dir())
    run = names.run_dir("default")
    os.mkdir(run.path, 0o755)
    assert connect().private
    with pytest.raises(RunDirError, match="mode 755"):
        connect("default")
    os.rmdir(run.path)


def test_a_link_starts_once_but_a_bad_argument_does_not_count(daemon, connect):
    link = connect("unit")
    with pytest.raises(MessageError, match="rows on the device"):
        link.start([messages.Stream(0, 0, (0,))], [messages.Table(0, "user", 4, 0)])
    link.start(*small_session())
    with pytest.raises(WrongStateError):
        link.start(*small_session())
    with pytest.raises(WrongStateError, match="serving"):
        ask(daemon.run, messages.Start(*map(tuple, small_session()), token=link._token))


def test_a_session_gets_streams_and_tables_while_it_goes_on(daemon, connect):
    link = connect("unit")
    with pytest.raises(WrongStateError, match="E219.*add_stream"):
        link.add_stream(messages.Stream(5, 1, (0,)))
    link.start(*small_session("user", "item"))
    daemon.wait_attached()
    piece = link.add_stream(messages.Stream(5, 1, (1, 0)))
    ring = header(piece, structs.RING)[0]
    assert (ring["version"], ring["stream"], ring["channel"], ring["table_count"]) == (structs.VERSION, 5, 1, 2)
    assert header(piece, structs.RING_TABLE, int(ring["tables_offset"]), 2)["table"].tolist() == [1, 0]
    assert [(ring["stream"], ring["channel"]) for ring in link.status()["rings"]] == [
        (0, "train"), (1, "eval"), (5, "eval")]
    for stream, words in ((messages.Stream(5, 1, (0,)), "there already"),
                          (messages.Stream(6, 0, (0,)), "second stream that trains table 0"),
                          (messages.Stream(6, 1, (2,)), "has table 2")):
        with pytest.raises(MessageError, match=words):
            link.add_stream(stream)
    assert len(link.status()["rings"]) == 3
    assert link.add_stream(messages.Stream(6, 1, (0,)))[1] > RING_BYTES
    for table, words in ((messages.Table(0, "user", 4, 10), "table 0 is there already"),
                         (messages.Table(3, "late", 4, 10), "follows 2 tables"),
                         (messages.Table(2, "late", 4, 0), "0 rows on the device")):
        with pytest.raises(MessageError, match=words):
            link.add_table(table)
    link.add_table(messages.Table(2, "late", 4, 10))
    made = header(link.add_table(messages.Table(2, "late", 4, 10, 30, 8)), structs.TABLE)[0]  # nobody trained it yet
    assert (made["version"], made["table"], made["home_capacity"]) == (structs.VERSION, 2, 30)
    link.add_stream(messages.Stream(7, 0, (2,)))
    with pytest.raises(MessageError, match="table 2 is there already"):
        link.add_table(messages.Table(2, "late", 4, 10))
    assert [table["name"] for table in link.status()["tables"]] == ["user", "item", "late"]


def test_a_session_has_local_rings(daemon, connect):
    link = connect("unit")
    streams, tables = small_session("user", "item")
    found = link.start([*streams, messages.Stream(2, 2, (0, 1), 4095)], tables)
    ring = header(found.streams[2], structs.RING)[0]
    assert (ring["version"], ring["channel"], ring["rank_size"]) == (structs.VERSION, 2, 4095)
    assert [header(found.streams[number], structs.RING)[0]["rank_size"] for number in (0, 1)] == [1, 1]
    daemon.wait_attached()
    added = link.add_stream(messages.Stream(3, 2, (1,), 2))
    assert header(added, structs.RING)[0]["rank_size"] == 2
    assert [ring["channel"] for ring in link.status()["rings"]] == ["train", "eval", "local", "local"]
    with pytest.raises(MessageError, match="E2.*stream 4 of channel 2 has rank_size 1"):
        link.add_stream(messages.Stream(4, 2, (0,)))


def test_a_start_without_a_trainer_and_a_token_of_another_process_are_refused(daemon):
    with pytest.raises(WrongStateError, match="idle"):
        ask(daemon.run, messages.Start(*map(tuple, small_session()), token=b"t" * 16))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.connect(daemon.run.lifeline)
        assert fdsocket.receive(line, 5.0)[0]["pid"] == daemon.pid
        fdsocket.send(line, {"verb": "trainer", "token": b"t" * 16})
        assert fdsocket.receive(line, 5.0)[0] == {"verb": "known"}
        with pytest.raises(PeerRefusedError, match="the kernel reports {}".format(os.getpid())):
            ask(daemon.run, messages.Register(1, LAYOUT, "1", b"t" * 16))
        with pytest.raises(PeerRefusedError, match="no lifeline"):
            ask(daemon.run, messages.Register(os.getpid(), LAYOUT, "1", b"u" * 16))


def session_requests(token):
    return [messages.Bye(token), messages.Start(*map(tuple, small_session("other")), token=token),
            messages.AddStream(messages.Stream(5, 1, (0,)), token),
            messages.AddTable(messages.Table(1, "late", 4, 10), token)]


def test_only_the_trainer_itself_ends_or_changes_its_session(daemon, connect):
    former = connect("unit")
    former.close()
    with pytest.raises(WrongStateError, match="E219.*no trainer is registered"):
        ask(daemon.run, messages.Bye(former._token))
    link = connect("unit")
    for state in ("registered", "serving"):
        for token in (former._token, b"t" * messages.TOKEN_BYTES):
            for body in session_requests(token):
                with pytest.raises(PeerRefusedError, match="E217.*pid {}.*another token".format(os.getpid())):
                    ask(daemon.run, body)
        assert (daemon.status()["state"], daemon.status()["trainer"]["run"]) == (state, link.run)
        if state == "registered":
            link.start(*small_session())
    assert [table["name"] for table in daemon.status()["tables"]] == ["user"]
    assert len(daemon.status()["rings"]) == 2
    link.add_stream(messages.Stream(5, 1, (0,)))
    link.close()
    assert daemon.status()["state"] == "idle"


def test_whatever_a_lifeline_says_the_daemon_lives(daemon, connect):
    for data in (b"GET / HTTP/1.0\r\n\r\n", b"\xff\xff\xff\xff", b"\x02\x00\x00\x00\xc1\xc1", b""):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.connect(daemon.run.lifeline)
            line.sendall(data)
            line.shutdown(socket.SHUT_WR)
            fdsocket.receive(line, 5.0)
            wait_until(lambda: fdsocket.is_closed(line))
    connect("unit").close()
    # connections that never register are bounded: the oldest give way
    lines = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(20)]
    for line in lines:
        line.connect(daemon.run.lifeline)
        fdsocket.receive(line, 5.0)
    wait_until(lambda: all(fdsocket.is_closed(line) for line in lines[:4]))
    assert not any(fdsocket.is_closed(line) for line in lines[4:])
    for line in lines:
        line.close()
    wait_until(lambda: connect("unit"))


def test_files_are_ours_alone_and_no_network_socket_is_open(daemon):
    for path in (daemon.run.path, daemon.run.control, daemon.run.lifeline, daemon.run.lock, daemon.run.log):
        assert os.lstat(path).st_mode & 0o077 == 0, path
    pids = [daemon.pid] + [worker["pid"] for worker in daemon.workers()]
    assert [psutil.Process(pid).net_connections("inet") for pid in pids] == [[]] * len(pids)


def test_a_daemon_that_runs_as_root_says_so_once(daemon):
    assert daemon.log().count("runs as root") == (os.geteuid() == 0)


def test_a_second_daemon_of_a_name_is_refused_and_the_first_is_not_disturbed(daemon, connect):
    link = connect("unit")
    link.start(*small_session())
    before = {key: worker["pid"] for key, worker in daemon.wait_attached().items()}
    with pytest.raises(AlreadyRunsError, match=r"E211.*pid {}, uid {}".format(daemon.pid, os.geteuid())):
        DaemonProcess("unit")
    status = daemon.status()
    assert (status["state"], status["trainer"]["pid"]) == ("serving", os.getpid())
    assert {(worker["kind"], worker["index"]): worker["pid"] for worker in status["workers"]} == before


def test_a_signal_ends_the_daemon_cleanly_and_tells_the_trainer(daemon, connect):
    link = connect("unit")
    pieces = link.start(*small_session())
    session = segment.map(*pieces.session)
    workers = [worker["pid"] for worker in daemon.wait_attached().values()]
    os.kill(daemon.pid, signal.SIGTERM)
    assert daemon.wait() == 0
    assert not any(is_alive(pid) for pid in workers)
    assert [name for name in os.listdir(daemon.run.path) if not name.endswith(".log")] == []
    told = session[:structs.SESSION.itemsize].view(structs.SESSION)[0]
    assert told["failed"] == 113
    assert b"SIGTERM" in told["failure_text"]
    assert fdsocket.is_closed(socket.socket(fileno=os.dup(link.lifeline_fd)))


def test_a_worker_that_cannot_run_is_said_at_the_start(connect, monkeypatch):
    monkeypatch.setenv("ASCPIPE_X_STANDIN_BROKEN", "key")
    broken = DaemonProcess("unit")
    try:
        wait_until(lambda: broken.workers("key")[0]["pid"] is None)
        with pytest.raises(Exception, match="E130.*exit code 1 .ImportError: no module named 'something'"):
            connect("unit").start(*small_session())
    finally:
        broken.end()


def test_workers_are_fenced_in(daemon, connect):
    connect("unit").start(*small_session())
    for (kind, _), worker in daemon.wait_attached().items():
        process = psutil.Process(worker["pid"])
        assert (os.getpgid(worker["pid"]), os.getsid(worker["pid"])) == (worker["pid"], worker["pid"])
        assert process.rlimit(psutil.RLIMIT_CORE) == (0, 0)
        with open("/proc/{}/oom_score_adj".format(worker["pid"])) as file:
            assert file.read().strip() == {"key": "500", "table": "100"}[kind]
        names_seen = set(process.environ())
        assert "NUMBA_CACHE_DIR" in names_seen and not {"PYTEST_CURRENT_TEST", "OLDPWD"} & names_seen
        process.terminate()  # as a service manager does to the whole group
    for worker in daemon.wait_attached().values():
        assert (is_alive(worker["pid"]), worker["restarts"]) == (True, 0)


def test_a_forked_child_cannot_end_the_session_of_its_parent(daemon, connect):
    link = connect("unit")
    link.start(*small_session())
    pid = os.fork()
    if pid == 0:
        try:
            link.close()
        finally:
            os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert link.status()["state"] == "serving"
    assert not fdsocket.is_closed(link._sock)
