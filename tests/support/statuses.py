"""An answer to ``status`` in which every number is another one, of two tables, a disk, rings and ranks."""
import itertools

from ascpipe.daemon import statistics

_WORKER = {"generation": 1, "pid": 700, "restarts": 3, "attached": True, "hangs_s": 0.0}


def status(name="unit", **replaced):
    """As a daemon gives it; ``replaced`` are its fields at the top."""
    numbers = itertools.count(1000)

    def counted(*keys):
        return {key: next(numbers) for key in keys}

    tables = [{**counted("table", "dim", "device_rows", "rows", "hits", "misses", "loads", "evicted", "ids", "batches",
                         "keys", "home_rows", "host_bytes", "save_waits", "unlogged", "disk_slots", "disk_rows",
                         "fetches", "spills", "disk_waits"), "name": table} for table in ("user", 'a "table"')]
    for table in tables:
        table["row_floats"] = 2 * table["dim"]
        table["hit_rate"] = statistics.hit_rate(table)
    rings = [{**counted("stream", "frame_count", "submitted", "dropped", "parked", "ids", "trained", "arena_bytes",
                        "frames", "depth", "used_bytes"), "channel": channel} for channel in ("train", "eval")]
    exchanges = counted("rank", "ranks", "exchanges", "bytes_sent", "bytes_received", "slowest", "stream", "ticket",
                        "time_s", "waited_s", "slowest_s", "since_s")
    reading = counted("readers", "records", "bytes", "batches", "skipped", "read_s", "parse_s", "full_s", "waited_s")
    waits = [{"who": process, "asleep": asleep, **counted("sleeps", "late", "ticket"), "waits_for": waits_for,
              "table": table} for process, asleep, waits_for, table in (
                  ("trainer", True, "the table worker to plan it", "user"), ("pump", False, "nothing", None))]
    return {
        "name": name, "pid": 500, "version": "1.2.3", "state": "serving", "private": False, "uptime_s": 61.5,
        "trainer": {"pid": 600, "since": "noon", "run": 44}, "failure": None, "sessions_failed": 2, "compiling": False,
        "last_save": {"checkpoint": "/model/base-7", "at": 1500.0, "seconds": 1.5, "bytes": None, "kind": "full"},
        "template": "ready",
        "trace": {"spans": 0, "since_ns": 0, "until_ns": 0},
        "workers": [{**_WORKER, "kind": "key", "index": 0},
                    {**_WORKER, "kind": "table", "index": 1, "pid": None, "attached": False, "hangs_s": 7.5}],
        "messages": counted("refused", "dropped"), "tables": tables,
        "disks": [{**counted(*statistics.OF_DISKS), "directory": "/mnt/nvme"}], "rings": rings, "waits": waits,
        "exchanges": {**exchanges, "does": "trains"}, "reading": reading, **replaced}
