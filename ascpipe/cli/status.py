"""Command ``ascpipe status``, which prints the state of a daemon as tables or JSON."""
import json
import time
from typing import Any, Dict, List, Optional

import click

from ascpipe.cli import printing
from ascpipe.cli.chosen import chosen, name_option
from ascpipe.control import messages, saves
from ascpipe.control.client import ask
from ascpipe.figures.rates import absent
from ascpipe.figures.summary import state_of
from ascpipe.logs import counted
from ascpipe.names import RunDir

_TABLE_COLUMNS = [
    "table", "keys", "rows", "of at most", "on device", "dim", "batches", "hit rate", "swapped in", "evicted",
    "host MiB", "waits for saves"]
_RING_COLUMNS = [
    "stream", "channel", "depth", "of", "frames", "parked", "submitted", "dropped", "trained", "MiB used"]
_DISK_COLUMNS = [
    "directory", "queued", "under way", "most", "rows read", "written", "MiB read", "MiB written", "read us p50 / p99",
    "write us p50 / p99"]
_READING_COLUMNS = [
    "readers", "batches", "records", "MB", "skipped", "s in reads", "s in parsing", "s full", "s program waits"]
_LATE_S = 0.1  # shorter delays of a rank are not shown


@click.command("status", help="Show the state of a daemon.")
@name_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(name: Optional[str], as_json: bool) -> None:
    """Query the daemon once. Only the supervisor handles the query, so training is not delayed."""
    run = chosen(name)
    status = with_files(run, ask(run, messages.Status()))
    if as_json:
        click.echo(json.dumps(status, indent=2))
        return
    printing.show(headlines(status), tables(status))


def with_files(run: RunDir, status: Dict[str, Any]) -> Dict[str, Any]:
    """Return an answer to ``status`` with two more fields: ``logs`` is the folder of logs. ``last_save`` is the newest
    checkpoint of the session, or None.
    """
    return {**status, "logs": run.path, "last_save": saves.newest(run)}


def headlines(status: Dict[str, Any]) -> List[str]:
    """Return the lines that are printed above the tables."""
    lines = ["daemon {!r}: {}, pid {}, ascpipe {}, up {:.0f} s{}".format(
        status["name"], status["state"], status["pid"], status["version"], status["uptime_s"],
        ", private" if status["private"] else "")]
    trainer = status["trainer"]
    lines.append("trainer: none" if trainer is None else "trainer: pid {}, run {}, since {}".format(
        trainer["pid"], trainer["run"], trainer["since"]))
    lines += _of_ranks(status["exchanges"])
    if status["failure"]:
        lines.append("failed: {}".format(status["failure"]))
    save = status.get("last_save")
    if save is not None:
        lines.append("last checkpoint: {}, {} ago".format(
            save["checkpoint"], printing.duration(max(0.0, time.time() - save["at"]))))
    lines += ["eviction log: {} of table {!r} could not be written".format(
        counted(table["unlogged"], "line"), table["name"]) for table in status["tables"] if table.get("unlogged")]
    if status["trace"]["spans"]:
        lines.append("trace: {} spans of each worker are kept since {}".format(
            status["trace"]["spans"], time.strftime("%H:%M:%S", time.localtime(status["trace"]["since_ns"] // 10**9))))
    lines.append("logs: {}".format(status["logs"]))
    return lines


def _of_ranks(exchanges: Optional[Dict[str, Any]]) -> List[str]:
    if exchanges is None:
        return []
    lines = ["rank {rank} of {ranks}: {exchanges} exchanges, {sent:.1f} MiB sent, {received:.1f} received; "
             "{time_s:.1f} s in exchanges, {waited_s:.1f} s of that until the last rank joined".format(
                 sent=exchanges["bytes_sent"] / 2**20, received=exchanges["bytes_received"] / 2**20, **exchanges)]
    if exchanges["slowest_s"] >= _LATE_S:
        lines.append("others waited longest for rank {slowest}: {slowest_s:.1f} s".format(**exchanges))
    if exchanges["since_s"] is not None and exchanges["since_s"] >= _LATE_S:
        batch = " batch {ticket} of stream {stream}".format(**exchanges) if exchanges["ticket"] else ""
        lines.append("it {does}{batch}, and has waited for other ranks for {since_s:.1f} s".format(
            batch=batch, **exchanges))
    return lines


def tables(status: Dict[str, Any]) -> List[Any]:
    """Return (title, column names, rows of cells) for each table to print. Empty tables are omitted."""
    found = [
        ("workers", ["worker", "pid", "restarts", "state"], [
            ["{} {}".format(worker["kind"], worker["index"]), str(worker["pid"] or "-"), str(worker["restarts"]),
             state_of(worker, status)]
            for worker in status["workers"]]),
        ("tables", _TABLE_COLUMNS, [
            [table["name"], str(table["keys"]), str(table["rows"]),
             str(table["disk_slots"] or table["home_rows"] or table["device_rows"]),
             str(table["device_rows"]), str(table["dim"]), str(table["batches"]), _percent(table["hit_rate"]),
             str(table["loads"]), str(table["evicted"]), "{:.1f}".format(table["host_bytes"] / 2**20),
             str(table["save_waits"])]
            for table in status["tables"]]),
        ("rows on disk", ["table", "on disk", "of at most", "read", "written", "swapped in from host", "waits"], [
            [table["name"], *(str(table[name]) for name in ("disk_rows", "disk_slots", "fetches", "spills")),
             _percent(_found_on_host(table)), str(table["disk_waits"])]
            for table in status["tables"] if table["disk_slots"]]),
        ("disks", _DISK_COLUMNS, [
            [disk["directory"], str(disk["queued"]), str(disk["under_way"]), str(disk["deepest"]),
             str(disk["rows_read"]), str(disk["rows_written"]), "{:.1f}".format(disk["read_bytes"] / 2**20),
             "{:.1f}".format(disk["written_bytes"] / 2**20),
             *("{} / {}".format(disk[what + "_p50_us"], disk[what + "_p99_us"]) for what in ("read", "write"))]
            for disk in status["disks"]]),
        ("asc.data.read", _READING_COLUMNS, [_reading_cells(one) for one in [status.get("reading")] if one]),
        ("rings", _RING_COLUMNS, [
            [str(ring["stream"]), ring["channel"], str(ring["depth"]), str(ring["frame_count"]), str(ring["frames"]),
             str(ring["parked"]), str(ring["submitted"]), str(ring["dropped"]),
             "-" if ring["channel"] == "local" else str(ring["trained"]),
             "{:.1f} of {:.1f}".format(ring["used_bytes"] / 2**20, ring["arena_bytes"] / 2**20)]
            for ring in status["rings"]]),
        ("waits", ["who", "", "waits for", "table", "run:batch", "sleeps", "late"], [
            [wait["who"], "-" if wait["who"] in absent(status) else "asleep" if wait["asleep"] else "awake",
             wait["waits_for"], wait["table"] or "",
             printing.ticket_text(wait["ticket"]) if wait["ticket"] else "", str(wait["sleeps"]), str(wait["late"])]
            for wait in status["waits"]]),
    ]
    return [part for part in found if part[2]]


def _reading_cells(reading: Dict[str, Any]) -> List[str]:
    return [*(str(reading[name]) for name in ("readers", "batches", "records")),
            "{:.1f}".format(reading["bytes"] / 1e6), str(reading["skipped"]),
            *("{:.1f}".format(reading[name]) for name in ("read_s", "parse_s", "full_s", "waited_s"))]


def _found_on_host(table: Dict[str, Any]) -> Optional[float]:
    """Return the fraction of swapped-in rows that did not have to be read from disk, or None if no rows were swapped
    in.
    """
    return max(0.0, 1 - table["fetches"] / table["loads"]) if table["loads"] else None


def _percent(rate: Optional[float]) -> str:
    return "-" if rate is None else "{:.1f} %".format(100.0 * rate)
