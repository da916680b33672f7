"""Functions that build the reply to ``status`` from the daemon's state and the counters in shared memory.

The functions read only numbers from shared memory, because any process of the session may write to all of that memory.
"""
import time
from typing import Any, Dict, List, Optional, Sequence

from ascpipe.control import messages
from ascpipe.daemon.segment_headers import Segment, shape_of
from ascpipe.daemon.session_memory import SessionMemory, bell_of
from ascpipe.daemon.worker_identity import Worker
from ascpipe.layout import structs
from ascpipe.layout.words import EVAL, EXCHANGE_SENTENCES, LOCAL, TRAIN, WAIT_SENTENCES

OF_DISKS = ("queued", "under_way", "deepest", "delayed", "rows_read", "rows_written", "read_bytes", "written_bytes",
             "read_p50_us", "read_p99_us", "write_p50_us", "write_p99_us")
IDLE = 6  #: kind of EXCHANGE_SENTENCES for a rank that is not in an exchange
CHANNEL_NAMES = {TRAIN: "train", EVAL: "eval", LOCAL: "local"}


def describe_memory(memory: Optional[SessionMemory], workers: Sequence[Worker]) -> Dict[str, Any]:
    """Return the statistics of a session, for example of tables and rings. Without a session, all lists are empty."""
    if memory is None:
        return {"tables": [], "disks": [], "rings": [], "waits": [], "exchanges": None, "reading": None}
    names = {table.table: table.name for table in memory.start.tables}
    return {
        "tables": [_table(made, table) for made, table in zip(memory.tables, memory.start.tables)],
        "disks": disks(memory),
        "rings": [_ring(made.view(structs.RING)[0], stream)
                  for made, stream in zip(memory.rings, memory.start.streams)],
        "waits": _waits(memory, workers, names),
        "exchanges": exchanges(memory.session.view(structs.EXCHANGES, structs.SESSION_EXCHANGES_OFFSET)[0],
                               time.monotonic()),
        "reading": reading(memory.session.view(structs.READING, structs.SESSION_READING_OFFSET)[0]),
    }


def hit_rate(table: Dict[str, Any]) -> Optional[float]:
    """Return the fraction of distinct keys whose rows were already on the device, or None before the first batch."""
    looked_up = table["hits"] + table["misses"]
    return table["hits"] / looked_up if looked_up else None


def exchanges(record: Any, now_s: float) -> Optional[Dict[str, Any]]:
    """Return the statistics of exchanges with other ranks, or None if there is only one rank.

    Args:
        record: an ``EXCHANGES``.
        now_s: time of CLOCK_MONOTONIC in seconds.

    Returns:
        A dict with these fields:

        - ``rank``, ``ranks``, ``exchanges``, ``bytes_sent``, ``bytes_received``
        - ``time_s``: total time of exchanges; ``waited_s``: part of this time until the last rank joined
        - ``slowest``: rank for which other ranks waited longest; ``slowest_s``: duration of these waits
        - ``does`` (a string), ``stream``, ``ticket``, ``since_s``: the current exchange; ``since_s`` is None if
          the rank is not in an exchange
    """
    if not int(record["ranks"]):
        return None
    fields: Dict[str, Any] = {name: int(record[name]) for name in (
        "rank", "ranks", "exchanges", "bytes_sent", "bytes_received", "slowest", "stream", "ticket")}
    for name in ("time", "waited", "slowest"):
        fields[name + "_s"] = int(record[name + "_us"]) / 1e6
    kind = int(record["kind"])
    since = int(record["since_us"])
    fields["does"] = EXCHANGE_SENTENCES.get(kind, "?")
    fields["since_s"] = max(0.0, now_s - since / 1e6) if since and kind != IDLE else None
    return fields


def reading(record: Any) -> Optional[Dict[str, Any]]:
    """Return the counters of the threads that read training data, or None if ascpipe has not read training data.

    Args:
        record: a ``READING``.

    Returns:
        A dict with the number of ``readers`` that exist, the counters ``records``, ``bytes``, ``batches`` and
        ``skipped``, and times in seconds: ``read_s``, ``parse_s`` and ``full_s`` of all readers together, and
        ``waited_s`` of the program.
    """
    fields: Dict[str, Any] = {name: int(record[name]) for name in ("readers", "records", "bytes", "batches", "skipped")}
    for name in ("read", "parse", "full", "waited"):
        fields[name + "_s"] = int(record[name + "_us"]) / 1e6
    return fields if any(fields.values()) else None


def _table(made: Segment, table: messages.Table) -> Dict[str, Any]:
    header = made.view(structs.TABLE)[0]
    fields: Dict[str, Any] = {name: int(header[name]) for name in (
        "rows", "hits", "misses", "loads", "evicted", "ids", "batches")}
    fields.update(table=table.table, dim=table.dim, row_floats=table.row_floats or table.dim,
                  device_rows=table.device_rows, name=table.name)
    fields["keys"] = fields["rows"]
    fields["home_rows"] = table.home_rows
    fields["host_bytes"] = _number(int(header["entries_ready"]) * structs.ENTRY.itemsize +
                                   int(header["homes_ready"]) * table.row_floats * 4)
    fields["save_waits"] = _number(int(header["save_waits"]) + int(header["snapshot_waits"]))
    fields["unlogged"] = _number(int(header["unlogged_evicted"]) + int(header["unlogged_deleted"]))
    fields["hit_rate"] = hit_rate(fields)
    disk = made.view(structs.DISK_TABLE, shape_of(table).disk_offset)[0] if table.disk_rows else None
    fields["disk_slots"] = table.disk_rows
    for name in ("disk_rows", "fetches", "spills"):
        fields[name] = 0 if disk is None else int(disk[name])
    fields["disk_waits"] = 0 if disk is None else int(disk["waits"])
    return fields


def disks(memory: SessionMemory) -> List[Dict[str, Any]]:
    """For each disk with row files, return a dict that contains a directory on the disk and the counters of the disk's
    queue.
    """
    lines = []
    for record in memory.session.view(structs.DISK, structs.SESSION_DISKS_OFFSET, structs.MAX_DISKS):
        files, _ = memory.row_files(int(record["table"]))
        if record["used"] and 0 <= int(record["file"]) < len(files):
            lines.append({"directory": files[int(record["file"])]["directory"],
                          **{name: int(record[name]) for name in OF_DISKS}})
    return lines


def _ring(header: Any, stream: messages.Stream) -> Dict[str, Any]:
    fields: Dict[str, Any] = {name: int(header[name]) for name in (
        "frame_count", "submitted", "dropped", "parked", "ids", "trained", "arena_bytes")}
    fields.update(stream=stream.stream, channel=CHANNEL_NAMES[stream.channel])
    fields["frames"] = int(header["tail"])
    fields["depth"] = _number(int(header["tail"]) - int(header["head"]))
    fields["used_bytes"] = _number(int(header["arena_tail"]) - int(header["arena_head"]))
    return fields


def _number(value: int) -> int:
    """Limit a value to int64, because messages cannot contain larger numbers."""
    return max(-2**63, min(2**63 - 1, value))


def _waits(memory: SessionMemory, workers: Sequence[Worker], names: Dict[int, str]) -> List[Dict[str, Any]]:
    """Return the state of each bell (trainer, pump and workers) as a dict."""
    owners = [(structs.BELL_TRAINER, "trainer"), (structs.BELL_PUMP, "pump")]
    owners += [(bell_of(worker), worker.sentence) for worker in workers]
    bells = memory.session.view(structs.BELL, structs.SESSION_BELLS_OFFSET, structs.BELLS)
    lines = []
    for index, owner in owners:
        bell = bells[index]
        lines.append({
            "who": owner, "asleep": bool(bell["waiting"]), "sleeps": int(bell["sleeps"]), "late": int(bell["late"]),
            "waits_for": WAIT_SENTENCES.get(int(bell["waits_for"]), "?"), "table": names.get(int(bell["waits_table"])),
            "ticket": int(bell["waits_ticket"]),
        })
    return lines
