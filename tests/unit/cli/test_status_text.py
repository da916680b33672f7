"""What ``ascpipe status`` shows, without a daemon."""
import json
import os
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from ascpipe import names
from ascpipe.cli import main, status
from ascpipe.control import saves
from ascpipe.errors import AlreadyRunsError, ConfigError, NameRefusedError, NotRunningError
from ascpipe.layout.ticket import SEQUENCE_BITS

STATUS = {
    "name": "unit", "state": "serving", "pid": 5, "version": "1", "uptime_s": 61.4, "private": True, "failure": None,
    "trace": {"spans": 0, "since_ns": 0, "until_ns": 0},
    "trainer": {"pid": 9, "run": 3, "since": "noon"},
    "workers": [{"kind": "key", "index": 0, "pid": 6, "restarts": 2, "attached": True, "hangs_s": 0.0},
                {"kind": "table", "index": 0, "pid": None, "restarts": 0, "attached": False, "hangs_s": 0.0}],
    "tables": [{"name": "user[1]", "keys": 7, "rows": 7, "device_rows": 100, "home_rows": 5000, "dim": 8, "batches": 2,
                "hit_rate": 0.954, "loads": 31, "evicted": 4, "host_bytes": 3 << 19, "unlogged": 0,
                "save_waits": 2, "disk_slots": 0, "disk_rows": 0, "fetches": 0, "spills": 0, "disk_waits": 0}],
    "disks": [],
    "rings": [{"stream": 0, "channel": "train", "depth": 3, "frame_count": 64, "frames": 12, "parked": 1,
               "submitted": 14, "dropped": 1, "trained": 9, "used_bytes": 2**20, "arena_bytes": 2**28}],
    "waits": [{"who": "trainer", "asleep": True, "waits_for": "a plan of the table worker", "table": "user[1]",
               "ticket": (3 << SEQUENCE_BITS) + 77, "sleeps": 5, "late": 0}],
    "exchanges": None, "reading": None,
}
EXCHANGES = {"rank": 1, "ranks": 4, "exchanges": 230, "bytes_sent": 3 << 19, "bytes_received": 5 << 20, "time_s": 12.34,
             "waited_s": 4.1, "slowest": 2, "slowest_s": 3.04, "does": "trains", "stream": 0, "ticket": 117,
             "since_s": 2.55}


def shown(monkeypatch, body, *options):
    monkeypatch.setattr(status, "chosen", names.run_dir)
    monkeypatch.setattr(status, "ask", lambda run, message: body)
    result = CliRunner().invoke(main.main, ["status", "--name", "unit", *options])
    assert result.exit_code == 0, result.output
    return result.output


def test_each_number_stands_beside_its_name(monkeypatch):
    text = shown(monkeypatch, STATUS)
    for words in ("daemon 'unit': serving, pid 5, ascpipe 1, up 61 s, private", "trainer: pid 9, run 3, since noon",
                  "user[1]", "95.4 %", "a plan of the table worker", "3:77", "starting", "1.0 of 256.0"):
        assert words in text
    (table,) = [line.split() for line in text.splitlines() if " 95.4 % " in line]
    assert table == ["user[1]", "7", "7", "5000", "100", "8", "2", "95.4", "%", "31", "4", "1.5", "2"]
    (ring,) = [line.split() for line in text.splitlines() if " train " in line]
    assert ring[:9] == ["0", "train", "3", "64", "12", "1", "14", "1", "9"]


def test_the_most_rows_of_a_table_are_those_of_all_its_tiers(monkeypatch):
    for tiers, most in (({}, "5000"), ({"home_rows": 0}, "100"), ({"disk_slots": 90000}, "90000")):
        text = shown(monkeypatch, {**STATUS, "tables": [{**STATUS["tables"][0], **tiers}]})
        (row,) = [line.split() for line in text.splitlines() if line.strip().startswith("user[1]") and "%" in line
                  and "31" in line]
        assert row[3:5] == [most, "100"]


def test_workers_that_compile_kernels_say_so_and_are_not_awake(monkeypatch):
    waits = [{**STATUS["waits"][0], "who": "table worker 0", "asleep": False}]
    lines = shown(monkeypatch, {**STATUS, "compiling": True, "waits": waits}).splitlines()
    (state,) = [line for line in lines if line.split()[:2] == ["table", "0"]]
    assert state.rstrip().endswith("compiling kernels")
    (wait,) = [line for line in lines if line.split()[:2] == ["table", "worker"]]
    assert wait.split()[3] == "-"


def test_the_last_checkpoint_is_shown_with_its_age(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    run = names.run_dir("unit")
    os.makedirs(run.path)
    assert "last checkpoint" not in shown(monkeypatch, STATUS)
    assert json.loads(shown(monkeypatch, STATUS, "--json"))["last_save"] is None
    saves.note(run, saves.Save("/model/base-7", time.time() - 16.5, 0.5))
    assert "last checkpoint: /model/base-7, 16 s ago" in shown(monkeypatch, STATUS)
    assert json.loads(shown(monkeypatch, STATUS, "--json"))["last_save"]["checkpoint"] == "/model/base-7"


def test_lines_that_the_eviction_log_lacks_are_shown_for_each_table(monkeypatch):
    assert "eviction log" not in shown(monkeypatch, STATUS)
    text = shown(monkeypatch, {**STATUS, "tables": [{**STATUS["tables"][0], "unlogged": 3}]})
    assert "eviction log: 3 lines of table 'user[1]' could not be written" in text
@pytest.mark.parametrize("columns", [40, 80])
def test_a_narrow_terminal_cuts_no_name_and_no_head(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    name = "user_profile_long_term_interests"
    text = shown(monkeypatch, {**STATUS, "tables": [{**STATUS["tables"][0], "name": name}]})
    lines = text.splitlines()
    assert name in lines and "\u2026" not in text
    assert all(word in text for word in ("on device", "swapped in", "waits for saves", "95.4 %"))
    assert max(map(len, lines[3:])) <= columns  # the lines above the tables are sentences, which the terminal wraps


def test_a_worker_that_hangs_says_for_how_long(monkeypatch):
    first, second = STATUS["workers"]
    text = shown(monkeypatch, {**STATUS, "workers": [first, {**second, "pid": 8, "hangs_s": 7.4}]})
    assert "has made no progress for 7 s" in text


def test_a_table_with_rows_on_disk_shows_them_in_a_table_of_their_own(monkeypatch):
    assert "on disk" not in shown(monkeypatch, STATUS)
    on_disk = {**STATUS["tables"][0], "disk_slots": 90000, "disk_rows": 41, "fetches": 52, "spills": 63,
               "loads": 80, "disk_waits": 6}
    disk = {"directory": "/mnt/nvme", "queued": 11, "under_way": 12, "deepest": 16, "delayed": 13, "rows_read": 52,
            "rows_written": 63, "read_bytes": 3 << 19, "written_bytes": 5 << 19, "read_p50_us": 70,
            "read_p99_us": 300, "write_p50_us": 80, "write_p99_us": 900}
    text = " ".join(shown(monkeypatch, {**STATUS, "tables": [on_disk], "disks": [disk]}).split())
    assert "user[1] 41 90000 52 63 35.0 % 6" in text
    assert "/mnt/nvme 11 12 16 52 63 1.5 2.5 70 / 300 80 / 900" in text


def test_a_rank_shows_what_it_exchanges_and_which_rank_others_wait_for(monkeypatch):
    text = shown(monkeypatch, {**STATUS, "exchanges": EXCHANGES})
    for words in ("rank 1 of 4: 230 exchanges, 1.5 MiB sent, 5.0 received; 12.3 s in exchanges, 4.1 s of that",
                  "others waited longest for rank 2: 3.0 s",
                  "it trains batch 117 of stream 0, and has waited for other ranks for 2.5 s"):
        assert words in text


def test_one_rank_shows_no_exchanges_and_a_rank_that_waits_for_none_says_nothing_of_it(monkeypatch):
    assert "rank" not in shown(monkeypatch, STATUS)
    text = shown(monkeypatch, {**STATUS, "exchanges": {**EXCHANGES, "since_s": None, "slowest_s": 0.01}})
    assert "rank 1 of 4" in text
    assert "wait for" not in text
    assert "waited longest" not in text


def test_a_local_ring_trains_nothing(monkeypatch):
    local = {**STATUS["rings"][0], "channel": "local", "trained": 0}
    text = shown(monkeypatch, {**STATUS, "rings": [local]})
    (ring,) = [line.split() for line in text.splitlines() if " local " in line]
    assert ring[:9] == ["0", "local", "3", "64", "12", "1", "14", "1", "-"]


def test_an_idle_daemon_shows_no_empty_tables(monkeypatch):
    text = shown(monkeypatch, {**STATUS, "trainer": None, "tables": [], "rings": [], "waits": [], "state": "idle"})
    assert "trainer: none" in text
    assert "hit rate" not in text


def test_a_trace_under_way_is_shown(monkeypatch):
    assert "trace:" not in shown(monkeypatch, STATUS)
    traced = {**STATUS, "trace": {"spans": 50, "since_ns": 10**18, "until_ns": 0}}
    assert "trace: 50 spans of each worker are kept since " in shown(monkeypatch, traced)


def test_a_failure_is_shown(monkeypatch):
    assert "failed: E122: torn" in shown(monkeypatch, {**STATUS, "failure": "E122: torn"})


def test_json_is_the_answer_itself_and_the_folder_of_logs(monkeypatch):
    assert json.loads(shown(monkeypatch, STATUS, "--json")) == {
        **STATUS, "logs": names.run_dir("unit").path, "last_save": None}


@pytest.mark.parametrize("daemon, worker, state", [
    ("idle", {"pid": 0}, "starting"), ("serving", {"pid": 0}, "starting"), ("failed", {"pid": 0}, "not running"),
    ("idle", {"pid": 8}, "idle"), ("serving", {"pid": 8}, "starting"), ("serving", {"attached": True}, "working")])
def test_a_worker_that_has_not_come_up_is_starting_unless_its_daemon_is_over(monkeypatch, daemon, worker, state):
    workers = [{**STATUS["workers"][1], **worker}]
    text = shown(monkeypatch, {**STATUS, "state": daemon, "workers": workers})
    (row,) = [line.split() for line in text.splitlines() if line.split()[:2] == ["table", "0"]]
    assert " ".join(row[4:]) == state


def test_the_folder_of_the_logs_is_named(monkeypatch):
    assert "logs: " + names.run_dir("unit").path in shown(monkeypatch, STATUS)


@pytest.mark.parametrize("error, code", [
    (NotRunningError("a", "b"), 3), (NameRefusedError("/"), 2), (ConfigError("a", "b", 1, "c"), 2),
    (AlreadyRunsError("a", 1, 2, "noon", "b"), 1)])
def test_each_kind_of_error_has_its_exit_code(error, code):
    assert main.exit_code(error) == code


@pytest.mark.parametrize("arguments, code, words", [
    (["status", "--name", "nobody"], 3, "E212"), (["stop", "--name", "nobody"], 3, "E212"),
    (["status", "--name", "../x"], 2, "E215"), (["fly"], 2, "No such command"),
    (["status", "--fast"], 2, "No such option"),
    (["start", "--workers", "0"], 2, "E402"), (["start", "--ring-bytes", "x"], 2, "not a size"),
    (["--version"], 0, "ascpipe"), (["--help"], 0, "status")])
def test_wrong_usage_ends_with_its_code_and_one_sentence(arguments, code, words):
    result = CliRunner().invoke(main.main, arguments)
    assert (result.exit_code, words in result.output) == (code, True), result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("verb", ["start", "stop", "status"])
def test_no_verb_loads_numba_or_tensorflow(verb):
    code = ("import sys\nfrom ascpipe.cli.main import main\n"
            "try:\n    main(['{}', '--name', 'nobody', '--ring-bytes', '1'][:3 + 2 * ('{}' == 'start')])\n"
            "except SystemExit as end:\n    assert end.code in (2, 3), end.code\n"
            "import ascpipe.daemon.main, ascpipe.control.trainer_link\n"
            "sys.exit(any(name in sys.modules for name in ('numba', 'tensorflow')))\n").format(verb, verb)
    assert subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL).returncode == 0
