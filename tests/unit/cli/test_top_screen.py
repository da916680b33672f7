"""The screen of ``ascpipe top``: what fits, what keys do, in which order tables are."""
import pytest

from ascpipe.cli.keys import names_in
from ascpipe.cli.top_screen import SORTS, View, chosen, drawn, pressed, printed
from tests.unit.cli.test_rates import look, wait

NAMES = ["user_profile_long_term_interests_tower_{}_embedding".format(chr(97 + i)) for i in range(26)]


def answers():
    """Two answers to status of a session with 26 tables."""
    found = []
    for up in (0.0, 1.0):
        body = look(up, trained=int(20 * up))
        tables = [{**body["tables"][0], "name": name, "dim": 8, "keys": 5, "ids": int(up * 1000 * (number + 1)),
                   "hits": int(up * number), "misses": int(up * 3)} for number, name in enumerate(NAMES)]
        workers = [{"kind": kind, "index": 0, "pid": 7, "attached": True, "hangs_s": 0.0} for kind in ("key", "table")]
        found.append({**body, "tables": tables, "workers": workers, "name": "unit", "pid": 5, "version": "1",
                      "private": False, "failure": None, "trace": {"spans": 0}, "logs": "/run/unit",
                      "waits": [*body["waits"], wait("disk worker 0", "disk")]})
    return found


def shown(view, width=80, height=24):
    looks = answers()
    lines, view = drawn(looks[-1], looks, view, width, height)
    return [text for text, _ in lines], view


def after(keys, view=View()):  # noqa: B008  (immutable)
    for key in keys:
        view = pressed(view, key, 10)
        _, view = shown(view)
    return view


def test_80_by_24_shows_the_bottleneck_and_the_processes_and_cuts_no_name():
    lines, _ = shown(View())
    assert len(lines) == 24 and max(map(len, lines)) <= 80
    text = "\n".join(lines)
    for words in ("daemon 'unit': serving", "bottleneck", "trainer", "key worker 0", "table worker 0", "q ends"):
        assert words in text
    assert [line for line in lines if line == "> " + NAMES[0]], "the first table"
    assert lines[-1].endswith("/ filter"), "the keys are whole"


def test_a_failure_is_above_the_processes_and_the_folder_of_logs_is_at_the_end():
    looks = answers()
    looks[-1]["failure"] = "E140: killed"
    lines = [text for text, _ in drawn(looks[-1], looks, View(), 80, 200)[0]]
    places = [next(number for number, line in enumerate(lines) if line.startswith(words))
              for words in ("failed: E140", "processes", "tables by", "rings", "trainer: pid", "logs:")]
    assert places == sorted(places)


def test_every_name_is_whole_on_one_of_the_screens():
    view, seen = View(), set()
    for _ in range(20):
        lines, view = shown(view)
        seen |= set(lines)
        view = pressed(view, "pagedown", 10)
    assert {"  " + name for name in NAMES[1:]} | {"> " + NAMES[0]} <= seen


def test_the_selected_table_is_always_on_the_screen():
    view = View()
    for name in NAMES[1:]:
        view = pressed(view, "down", 10)
        lines, view = shown(view)
        assert "> " + name in lines
    for name in NAMES[-2::-1]:
        view = pressed(view, "up", 10)
        lines, view = shown(view)
        assert any(line == "> " + name for line in lines) or name == NAMES[0]


def test_numbers_stay_in_range_at_both_ends():
    assert after(["up"]).selected == 0
    assert after(["down"] * 40).selected == 25
    assert after(["pageup"]).top == 0
    assert after(["pagedown"] * 40).top == after(["pagedown"] * 41).top
    assert after(["pagedown", "home"]).top == 0


def test_s_sorts_by_each_column_and_r_reverses():
    looks = answers()
    view = after(["s", "s"])
    assert view.sort == SORTS[2] == "ids"
    text = "\n".join(printed(looks[-1], looks, view, 80))
    positions = [text.index(name) for name in NAMES]
    assert positions == sorted(positions, reverse=True)
    text = "\n".join(printed(looks[-1], looks, after(["r"], view), 80))
    positions = [text.index(name) for name in NAMES]
    assert positions == sorted(positions)
    assert after(["s"] * len(SORTS)).sort == SORTS[0]


def test_tables_without_a_rate_are_last():
    tables = [{"table": "a", "device_hit_rate": None}, {"table": "b", "device_hit_rate": 0.0},
              {"table": "c", "device_hit_rate": 0.5}]
    assert [one["table"] for one in chosen(tables, View(sort="device_hit_rate"))] == ["c", "b", "a"]


def test_a_filter_is_typed_kept_and_cleared():
    view = after(["/", "T", "_", "x", "backspace", "z"])
    assert view.query == "T_z" and view.is_typing
    lines, _ = shown(view)
    assert any(line.startswith("filter: T_z") for line in lines) or "filter: T_z" in lines[-1]
    assert "> " + NAMES[25] not in lines  # tower_z has no "t_z"
    view = after(["/", "R", "_", "z", "enter"])
    lines, _ = shown(view)
    assert "> " + NAMES[25] in lines and not view.is_typing
    assert after(["escape"], view).query == ""
    assert after(["/", "q", "escape"]) == View(follows=True)


def test_a_filter_that_finds_nothing_is_shown():
    lines, _ = shown(after(["/", "?", "enter"]))
    assert any("with '?' in the name: none" in line for line in lines)


def test_enter_shows_one_table_and_enter_returns():
    view = after(["down", "enter"])
    lines, _ = shown(view, height=40)
    assert "table " + NAMES[1] in lines and not any(NAMES[0] in line for line in lines)
    for words in ("ids/s", "rows on the device, at most", "swapped in"):
        assert any(line.startswith(words) for line in lines)
    assert not after(["enter"], view).detail and not after(["escape"], view).detail


@pytest.mark.parametrize("key", ["q", "Q", "end of input"])
def test_q_and_the_end_of_the_input_end_it(key):
    assert pressed(View(), key, 10) is None


@pytest.mark.parametrize("width, height", [(20, 6), (1, 1), (2, 2), (40, 10), (300, 100)])
def test_any_size_is_kept(width, height):
    lines, _ = shown(View(), width, height)
    assert len(lines) <= height and max(map(len, lines)) <= width


def test_a_daemon_without_tables_is_drawn():
    looks = [{**body, "tables": [], "rings": [], "waits": [], "trainer": None} for body in answers()]
    lines, view = drawn(looks[-1], looks, View(selected=3, detail=True), 80, 24)
    assert view.selected == 0 and any("bottleneck" in text for text, _ in lines)


@pytest.mark.parametrize("sent, names", [
    (b"", ["end of input"]), (b"q", ["q"]), (b"\x1b[A\x1b[B", ["up", "down"]), (b"\x1b[5~x", ["pageup", "x"]),
    (b"\x1b", ["escape"]), (b"\r\x7f", ["enter", "backspace"]), (b"\x1b[1;5Ca", ["a"]),
    ("\u00e9\u65e5".encode(), ["\u00e9", "\u65e5"]),
    (b"\xff\x01z", ["z"])])
def test_bytes_of_a_terminal_are_keys(sent, names):
    assert names_in(sent) == names
