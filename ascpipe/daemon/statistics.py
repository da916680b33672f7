"""Builds the answer to ``status`` from the daemon's state and the counters in shared memory."""
from typing import Any, Dict, List, Optional, Sequence

from ascpipe.daemon.lifecycle import Worker
from ascpipe.daemon.session_memory import SessionMemory, bell_of
from ascpipe.layout import structs
from ascpipe.layout.words import EVAL, LOCAL, TRAIN, WAIT_SENTENCES

CHANNEL_NAMES = {TRAIN: "train", EVAL: "eval", LOCAL: "local"}


def describe_memory(memory: Optional[SessionMemory], workers: Sequence[Worker]) -> Dict[str, Any]:
    """Tables, rings and waits of a session; empty lists without one."""
    if memory is None:
        return {"tables": [], "rings": [], "waits": []}
    names = {table.table: table.name for table in memory.start.tables}
    return {
        "tables": [_table(made.view(structs.TABLE)[0], names) for made in memory.tables],
        "rings": [_ring(made.view(structs.RING)[0]) for made in memory.rings],
        "waits": _waits(memory, workers, names),
    }


def hit_rate(table: Dict[str, Any]) -> Optional[float]:
    """Share of distinct keys that were found on the device; None before the first batch."""
    looked_up = table["hits"] + table["misses"]
    return table["hits"] / looked_up if looked_up else None


def _table(header: Any, names: Dict[int, str]) -> Dict[str, Any]:
    fields: Dict[str, Any] = {name: int(header[name]) for name in (
        "table", "dim", "device_rows", "rows", "hits", "misses", "loads", "evicted", "ids", "batches")}
    fields["name"] = names[fields["table"]]
    fields["keys"] = fields["rows"]
    fields["home_rows"] = int(header["home_capacity"])
    fields["host_bytes"] = int(header["entries_ready"]) * structs.ENTRY.itemsize + \
        int(header["homes_ready"]) * int(header["row_floats"]) * 4
    fields["save_waits"] = int(header["save_waits"]) + int(header["snapshot_waits"])
    fields["hit_rate"] = hit_rate(fields)
    return fields


def _ring(header: Any) -> Dict[str, Any]:
    fields: Dict[str, Any] = {name: int(header[name]) for name in (
        "stream", "frame_count", "submitted", "dropped", "parked", "ids", "trained", "arena_bytes")}
    fields["channel"] = CHANNEL_NAMES[int(header["channel"])]
    fields["frames"] = int(header["tail"])
    fields["depth"] = int(header["tail"]) - int(header["head"])
    fields["used_bytes"] = int(header["arena_tail"]) - int(header["arena_head"])
    return fields


def _waits(memory: SessionMemory, workers: Sequence[Worker], names: Dict[int, str]) -> List[Dict[str, Any]]:
    """One line per bell whose owner runs."""
    owners = [(structs.BELL_TRAINER, "trainer"), (structs.BELL_PUMP, "pump")]
    owners += [(bell_of(worker), worker.sentence) for worker in workers]
    bells = memory.session.view(structs.BELL, structs.SESSION_BELLS_OFFSET, structs.BELLS)
    lines = []
    for index, owner in owners:
        bell = bells[index]
        waits_for, table = int(bell["waits_for"]), int(bell["waits_table"])
        lines.append({
            "who": owner, "asleep": bool(bell["waiting"]), "sleeps": int(bell["sleeps"]), "late": int(bell["late"]),
            "waits_for": WAIT_SENTENCES.get(waits_for, "?"), "table": names.get(table),
            "ticket": int(bell["waits_ticket"]),
        })
    return lines
