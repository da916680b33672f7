"""``ascpipe top`` on a terminal: figures move while a program trains, any size will do, all is as before afterwards."""
import contextlib
import json
import os
import re
import signal
import string
import subprocess
import sys

import pytest

from ascpipe.control import trainer_link
from tests.support.daemons import LAYOUT, ROOT, DaemonProcess, small_session, use_standins
from tests.support.programs import running
from tests.support.terminals import SHOWN, USUAL, Terminal
from tests.support.watched_training import trained_by

pytestmark = [pytest.mark.timeout_s(180), pytest.mark.usefixtures("forked_programs")]


def top(name="unit", columns=140, lines=50):
    environment = dict(os.environ, PYTHONPATH=ROOT)
    for variable in ("COLUMNS", "LINES"):  # the size of another terminal
        environment.pop(variable, None)
    return Terminal([sys.executable, "-m", "ascpipe", "top", "--name", name], columns, lines, environment)


def whole(terminal, count):
    """So many whole screens."""
    return terminal.wait_until(lambda: terminal.screens()[:count] if len(terminal.screens()) > count else None)


def ends_with_q(terminal):
    terminal.press("q")
    assert terminal.ended() == 0
    is_as_before(terminal)
    assert terminal.afterwards().strip() == ""


def is_as_before(terminal):
    assert terminal.settings() == terminal.before
    assert USUAL in terminal.said and SHOWN in terminal.said
    assert "Traceback" not in terminal.said


@pytest.fixture(scope="module")
def training():
    daemon = DaemonProcess("unit", ring_bytes=running.RING_BYTES, spared=True)
    try:
        with trained_by("unit"):
            yield daemon
    finally:
        daemon.end()


def row_of(screen, first):
    """The cells of the row that begins with a word, or with a mark and the word."""
    rows = [line.lstrip("> ").split() for line in screen.splitlines()]
    return next(row for row in rows if row[:1] == [first])


def test_figures_move_from_one_screen_to_the_next_while_a_program_trains_and_q_ends_it(training):
    with top() as terminal:
        assert terminal.settings() == terminal.before
        screens = whole(terminal, 3)[1:]
        for screen in screens:
            batches, ids = (float(cell.replace(",", "")) for cell in row_of(screen, "ids")[1:3])
            assert batches > 0 and ids == pytest.approx(40 * batches, rel=0.2)
            assert "trainer" in screen and "table worker 0" in screen and "q ends" in screen
        assert row_of(screens[0], "ids") != row_of(screens[1], "ids")
        ups = [float(re.search(r"up (\d+) s", screen).group(1)) for screen in screens]
        assert ups[0] < ups[1]
        assert terminal.settings() != terminal.before, "keys are read as they are pressed"
        ends_with_q(terminal)


@pytest.mark.parametrize("columns, lines", [
    (20, 6), (140, 20), *(pytest.param(*case, marks=pytest.mark.long) for case in [(40, 50), (40, 20)])])
def test_a_small_terminal_shows_what_it_has_room_for(training, columns, lines):
    with top(columns=columns, lines=lines) as terminal:
        for screen in whole(terminal, 2):
            rows = screen.split("\n")
            assert len(rows) <= lines and max(map(len, rows)) <= columns
            assert screen.startswith("daemon 'unit'"[:columns])
        ends_with_q(terminal)


def test_ctrl_c_ends_it_as_q_does(training):
    with top() as terminal:
        whole(terminal, 1)
        terminal._process.send_signal(signal.SIGINT)
        assert terminal.ended() == 0
        is_as_before(terminal)


@pytest.mark.usefixtures("training")  # else pytest ends that one after the module's gate of leaks
def test_a_daemon_that_ends_ends_it_with_one_line_and_3(monkeypatch):
    use_standins(monkeypatch)
    daemon = DaemonProcess("ending")
    try:
        with top("ending") as terminal:
            whole(terminal, 1)
            daemon.end()
            assert terminal.ended() == 3
            is_as_before(terminal)
            (line,) = terminal.afterwards().strip().splitlines()
            assert line.startswith("ascpipe: E212: No ascpipe daemon named 'ending' is running")
    finally:
        daemon.end()


NAMES = ["user_profile_long_term_interests_tower_{}_embedding".format(letter) for letter in string.ascii_lowercase]


@pytest.mark.usefixtures("training")
def test_80_by_24_shows_26_tables_with_whole_names_by_arrows_filter_and_detail(monkeypatch):
    use_standins(monkeypatch)
    daemon = DaemonProcess("many")
    try:
        with contextlib.closing(trainer_link.connect("many", layout=LAYOUT)) as link, top("many", 80, 24) as terminal:
            link.start(*small_session(*NAMES))

            def wait_for(*words):
                """Screen with all words."""
                return terminal.wait_until(lambda: [screen for screen in terminal.screens()[-3:-1]
                                                    if all(word in screen for word in words)])[0]

            def then(key):
                terminal.press(key)
                return terminal.wait_until(lambda: terminal.screens()[:-1])[-1]

            seen = wait_for("> " + NAMES[0], "key worker 0")
            for _ in NAMES[1:]:
                then("\x1b[B")
            seen = wait_for("> " + NAMES[25])
            assert all(len(line) <= 80 for line in seen.splitlines()) and len(seen.splitlines()) <= 24
            then("/")
            then("tower_m")
            then("\r")
            seen = wait_for("> " + NAMES[12], "'tower_m' in the name")
            assert NAMES[25] not in seen
            then("\r")
            assert "rows on the device, at most" in wait_for("table " + NAMES[12])
            ends_with_q(terminal)
    finally:
        daemon.end()


def test_once_and_json_need_no_terminal(training):
    done = subprocess.run([sys.executable, "-m", "ascpipe", "top", "--name", "unit", "--once"], cwd=ROOT,
                          env=dict(os.environ, COLUMNS="40"), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 40 and "table worker 0" in done.stdout
    done = subprocess.run([sys.executable, "-m", "ascpipe", "top", "--name", "unit", "--once", "--json"], cwd=ROOT,
                          capture_output=True, text=True, timeout=60)
    told = json.loads(done.stdout)
    assert [table["table"] for table in told["tables"]] == ["ids"] and told["tables"][0]["batches"] > 0
