"""Pure functions that compute the lines that ``ascpipe top`` shows."""
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ascpipe.cli.fitting import fitted, wrapped
from ascpipe.cli.stats import percent
from ascpipe.cli.status import headlines
from ascpipe.figures.rates import busy
from ascpipe.figures.summary import limit, state_of, summary
from ascpipe.logs import one_line

#: (name of a column, field of ``rates``) of each table; ``--sort`` and the key s use the fields
TABLE_COLUMNS = (
    ("table", "table"), ("batches/s", "batches"), ("ids/s", "ids"), ("device hit", "device_hit_rate"),
    ("host hit", "host_hit_rate"), ("in/s", "rows_in"), ("out/s", "rows_out"), ("read/s", "rows_read"),
    ("written/s", "rows_written"))
SORTS = tuple(field for _, field in TABLE_COLUMNS)
_READING_COLUMNS = ["readers", "records/s", "MB/s", "skipped/s", "busy", "of it reads", "full", "program waits"]
_DETAILS = (("keys", "keys"), ("rows", "rows"), ("rows on the device, at most", "device_rows"),
            ("rows on the host, at most", "home_rows"), ("rows on disk, at most", "disk_slots"),
            ("rows on disk", "disk_rows"), ("dim", "dim"), ("batches", "batches"), ("ids", "ids"),
            ("found on the device", "hits"), ("not found on the device", "misses"), ("swapped in", "loads"),
            ("evicted", "evicted"), ("read from disk", "fetches"), ("written to disk", "spills"),
            ("waits for the disk", "disk_waits"), ("waits for saves", "save_waits"),
            ("bytes on the host", "host_bytes"))
#: fits into 80 columns together with the line numbers that ``drawn`` adds
_HELP = "q ends  arrows PgUp PgDn  Enter table  s sort  r reverse  / filter"

Line = Tuple[str, str]  #: text, and its style for rich: "", "bold" or "reverse"


class View(NamedTuple):
    """Settings of the screen that the user has chosen.

    Attributes:
        sort: field of ``SORTS`` by which tables are sorted. Names ascend, and rates descend.
        reverse: whether the order is reversed.
        query: filter. Only tables whose name contains this text are shown.
        is_typing: whether pressed keys are added to ``query``.
        selected: number of the selected table in the sorted list.
        top: number of the first line to show.
        follows: whether the screen scrolls to the selected table.
        detail: whether only the selected table is shown.
    """

    sort: str = SORTS[0]
    reverse: bool = False
    query: str = ""
    is_typing: bool = False
    selected: int = 0
    top: int = 0
    follows: bool = False
    detail: bool = False


USUAL = View()


def pressed(view: View, key: str, page: int) -> Optional[View]:
    """Return the view after a key was pressed, or None if the key ends the command.

    Args:
        view: view before the key. The numbers in the new view may be out of range; ``drawn`` corrects them.
        key: a character, or a name such as ``"up"`` of ``keys.names_in``.
        page: number of lines of a page.
    """
    if view.is_typing and key not in ("up", "down", "pageup", "pagedown"):
        return _typed(view, key)
    if key in ("q", "Q", "end of input"):
        return None
    moves = {"up": -1, "k": -1, "down": 1, "j": 1}
    scrolls = {"pageup": -page, "pagedown": page, " ": page, "home": -view.top}
    if key in moves:
        return view._replace(selected=view.selected + moves[key], follows=True)
    if key in scrolls:
        return view._replace(top=view.top + scrolls[key], follows=False)
    changes: Dict[str, Dict[str, Any]] = {
        "s": {"sort": SORTS[(SORTS.index(view.sort) + 1) % len(SORTS)], "selected": 0},
        "r": {"reverse": not view.reverse, "selected": 0}, "/": {"is_typing": True, "detail": False},
        "enter": {"detail": not view.detail, "top": 0, "follows": view.detail},
        "escape": {"detail": False, "query": view.query if view.detail else "", "top": 0}}
    return view._replace(**changes.get(key, {}))


def _typed(view: View, key: str) -> View:
    if key in ("enter", "end of input"):
        return view._replace(is_typing=False)
    if key == "escape":
        return view._replace(is_typing=False, query="")
    query = view.query[:-1] if key == "backspace" else view.query + key if len(key) == 1 else view.query
    return view._replace(query=query, selected=0, follows=True)


def drawn(status: Dict[str, Any], looks: List[Dict[str, Any]], view: View, width: int,
          height: int) -> Tuple[List[Line], View]:
    """Return the lines of the screen, and the view with its numbers limited to valid values.

    Args:
        status: latest answer to ``status``, with ``logs``.
        looks: answers of the last interval, oldest first.
        view: settings that the user has chosen.
        width, height: size of the screen in cells. At most ``height`` lines of at most ``width`` cells are returned.
    """
    tables = chosen(summary(looks)["tables"], view)
    view = view._replace(selected=max(0, min(view.selected, len(tables) - 1)))
    above = [(line, "bold") for line in wrapped(one_line(headlines(status)[0]), width)]
    parts = screen(status, looks, view)
    above += _part_lines(parts[0], width)
    if view.detail and tables:
        body = _details(status, tables[view.selected], width)
        at = (0, 0)
    else:
        body, at = _body(status, parts[1:], view, width)
    room = max(1, height - len(above) - 1)
    top = view.top
    if view.follows:
        top = 0 if view.selected == 0 else max(min(top, at[0]), at[1] - room + 1)
    top = max(0, min(top, len(body) - room))
    view = view._replace(top=top)
    shown = body[top:top + room]
    lines = [*above, *shown, *[("", "")] * (room - len(shown))]
    below = "filter: {}_  Enter keeps it, Esc clears it".format(view.query) if view.is_typing else _HELP
    if len(body) > room:
        below = "{}-{}/{}  {}".format(top + 1, top + len(shown), len(body), below)
    return [*lines[:height - 1], (wrapped(one_line(below), width)[0], "")][:height], view


def printed(status: Dict[str, Any], looks: List[Dict[str, Any]], view: View, width: int) -> List[str]:
    """Return all lines for a file or a pipe, without a limit on the number of lines."""
    lines = [line for text in headlines(status) for line in wrapped(one_line(text), width)]
    for part in screen(status, looks, view):
        lines += [text for text, _ in _part_lines(part, width)]
    return lines


def chosen(tables: Sequence[Dict[str, Any]], view: View) -> List[Dict[str, Any]]:
    """Return the statistics of the tables that match the filter, sorted as the user has chosen."""
    found = [table for table in tables if view.query.lower() in table["table"].lower()]
    by_name = sorted(found, key=lambda table: str(table["table"]))
    if view.sort != "table":
        by_name.sort(key=lambda table: -1.0 if table[view.sort] is None else float(table[view.sort]), reverse=True)
    return by_name[::-1] if view.reverse else by_name


def screen(status: Dict[str, Any], looks: List[Dict[str, Any]], view: View = USUAL) -> List[Any]:
    """Return (title, column names, rows of cells) for each table to draw. Empty tables are omitted."""
    told = summary(looks)
    awake = busy(looks)
    waits = {wait["who"]: wait["waits_for"] for wait in status["waits"]}
    processes = [("{} worker {}".format(worker["kind"], worker["index"]), str(worker["pid"] or "-"),
                  state_of(worker, status)) for worker in status["workers"]]
    if status["trainer"] is not None:
        processes.insert(0, ("trainer", str(status["trainer"]["pid"]), ""))
    found = [
        ("", ["steps/s", "ids/s", "step waits", "bottleneck"], [
            ["{:.1f}".format(told["steps"]), "{:,.0f}".format(told["ids"]), percent(told["step_waits"]),
             limit(told)]]),
        ("processes", ["process", "pid", "state", "awake", "waits for"], [
            [name, pid, state, percent(awake.get(name)), waits.get(name, "-")] for name, pid, state in processes]),
        ("rings", ["stream", "steps/s", "depth", "of", "parked"], [
            [str(ring["stream"]), "{:.1f}".format(ring["steps"]), str(ring["depth"]), str(ring["frames"]),
             str(ring["parked"])] for ring in told["rings"]]),
        ("asc.data.read", _READING_COLUMNS, [] if told["reading"] is None else [_reading_cells(told["reading"])]),
        ("tables", [name for name, _ in TABLE_COLUMNS], list(map(_table_cells, chosen(told["tables"], view)))),
    ]
    return [part for part in found if part[2]]


def _table_cells(table: Dict[str, Any]) -> List[str]:
    return [table["table"], "{:.1f}".format(table["batches"]), "{:,.0f}".format(table["ids"]),
            percent(table["device_hit_rate"]), percent(table["host_hit_rate"]),
            *("{:,.0f}".format(table[name]) for name in ("rows_in", "rows_out", "rows_read", "rows_written"))]


def _reading_cells(rates: Dict[str, float]) -> List[str]:
    return [str(rates["readers"]), "{:,.0f}".format(rates["records"]), "{:.1f}".format(rates["bytes"] / 1e6),
            "{:,.0f}".format(rates["skipped"]),
            *(percent(rates[name]) for name in ("busy", "reading", "full", "waited"))]


def _part_lines(part: Any, width: int, title: str = "") -> List[Line]:
    name, columns, rows = part
    told = fitted(columns, [list(map(one_line, row)) for row in rows], width)
    heading = [("", ""), *((line, "bold") for line in wrapped(title or name, width))] if name else [("", "")]
    return [*heading, *((line, "bold") for line in told.head), *((line, "") for row in told.rows for line in row)]


def _body(status: Dict[str, Any], parts: Sequence[Any], view: View, width: int) -> Tuple[List[Line], Tuple[int, int]]:
    """Return the lines that the user can scroll, and the line numbers of the selected table."""
    failed, others = _notes(status, width)
    body = [*failed, *(line for part in parts if part[0] == "processes" for line in _part_lines(part, width))]
    tables, at = _tables(next((part for part in parts if part[0] == "tables"), None), view, width, len(body))
    body += tables
    for part in parts:
        if part[0] not in ("processes", "tables"):
            body += _part_lines(part, width)
    return [*body, ("", ""), *others], at


def _notes(status: Dict[str, Any], width: int) -> Tuple[List[Line], List[Line]]:
    """Return (lines about a failure, all other lines) of ``headlines``, without its first line."""
    found: Tuple[List[Line], List[Line]] = ([], [])
    for text in headlines(status)[1:]:
        found[not text.startswith("failed: ")].extend((line, "") for line in wrapped(one_line(text), width))
    return found


def _tables(part: Any, view: View, width: int, above: int) -> Tuple[List[Line], Tuple[int, int]]:
    """Return the lines about tables, which follow ``above`` lines, and the line numbers of the selected table."""
    title = "tables by {}{}{}".format(
        next(name for name, field in TABLE_COLUMNS if field == view.sort), ", reversed" if view.reverse else "",
        " with {!r} in the name".format(view.query) if view.query else "")
    if part is None:
        return [(line, "") for line in wrapped(title + ": none", width)] if view.query else [], (0, 0)
    _, columns, rows = part
    told = fitted(columns, [list(map(one_line, row)) for row in rows], max(1, width - 2))
    body: List[Line] = [("", ""), *((line, "bold") for line in wrapped(one_line(title), width))]
    body += [("  " + line, "bold") for line in told.head]
    at = (0, 0)
    for number, row in enumerate(told.rows):
        if number == view.selected:
            at = (above + len(body), above + len(body) + len(row) - 1)
        mark, style = ("> ", "reverse") if number == view.selected else ("  ", "")
        body += [((mark if index == 0 else "  ") + line, style) for index, line in enumerate(row)]
    return body, at


def _details(status: Dict[str, Any], rates: Dict[str, Any], width: int) -> List[Line]:
    table = next(table for table in status["tables"] if table["name"] == rates["table"])
    cells = list(zip((name for name, _ in TABLE_COLUMNS), _table_cells(rates)))[1:]
    cells += [(name, "{:,}".format(table[field])) for name, field in _DETAILS if field in table]
    told = fitted(["", ""], [list(cell) for cell in cells], width)
    return [("", ""), *((line, "bold") for line in wrapped(one_line("table " + rates["table"]), width)),
            *((line, "") for row in told.rows for line in row)]
