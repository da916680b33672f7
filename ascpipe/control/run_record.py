"""Files with the counters of finished runs. `ascpipe report` and `ascpipe tune` read these files.

The first line of a file describes the run. Each other line is a sample: the fields of an answer to ``status`` that
change. The file is JSON lines. If the daemon is killed, all samples except the last one are complete.
"""
import contextlib
import json
import os
from typing import Any, Collection, Dict, List, Mapping, NamedTuple, Optional, Sequence

from ascpipe.control.saves import Save
from ascpipe.directories import user_state

FORMAT = 1
SUFFIX = ".jsonl"
ENDED = "ended"  #: end of a session that the daemon closed; the last sample has the failure, if there was one
TRAINER_DIED = "trainer died"  #: end of a session whose trainer exited without a message
#: fields of a table in a sample
TABLE_FIELDS = ("rows", "dim", "device_rows", "home_rows", "disk_slots", "batches", "ids", "hits", "misses", "loads",
                "evicted", "fetches", "spills", "disk_rows", "host_bytes", "save_waits", "row_floats")
_RING_FIELDS = ("stream", "channel", "depth", "frame_count", "trained", "parked")
_WAIT_FIELDS = ("who", "asleep", "waits_for")
_WORKER_FIELDS = ("kind", "index", "restarts")
MOST_SAVES = 1000  #: maximum number of checkpoints in a record
_MOST_BYTES = 64 << 20  # a daemon writes at most a few MB


class Record(NamedTuple):
    """Record of one run.

    Attributes:
        name: name of the record, ``DAEMON-RUN``.
        head: description of the run: daemon, versions, settings, machine and program.
        samples: answers to ``status``, oldest first, with only the fields of a sample. ``saves`` are the checkpoints
            that were completed after the previous sample. ``end`` is ENDED or TRAINER_DIED in the last sample of a
            closed session, otherwise None.
    """

    name: str
    head: Dict[str, Any]
    samples: List[Dict[str, Any]]


def base_dir() -> str:
    """Return the directory of all records. It may not exist."""
    return os.path.join(user_state(), "runs")


def packed(status: Mapping[str, Any], time_s: float, saves: Sequence[Save] = (), end: Optional[str] = None) -> str:
    """Return a sample as one line of a record file.

    Args:
        status: answer to ``status``.
        time_s: time in seconds since 1970.
        saves: checkpoints that were completed after the previous sample.
        end: ENDED or TRAINER_DIED for the last sample of a session, otherwise None.
    """
    return json.dumps({
        **({"saves": saves} if saves else {}), **({"end": end} if end is not None else {}),
        "time": round(time_s, 1), "up": round(status["uptime_s"], 2), "failure": status["failure"],
        "tables": {table["name"]: [table[field] for field in TABLE_FIELDS] for table in status["tables"]},
        "rings": [[ring[field] for field in _RING_FIELDS] for ring in status["rings"]],
        "waits": [[wait[field] for field in _WAIT_FIELDS] for wait in status["waits"]],
        "workers": [[worker[field] for field in _WORKER_FIELDS] for worker in status["workers"]],
        "exchanges": status["exchanges"], "reading": status["reading"]}, separators=(",", ":"))


def unpacked(line: str, run: int) -> Dict[str, Any]:
    """Parse the line of a sample. Return the sample in the form of an answer to ``status``."""
    told = json.loads(line)

    def dicts(part: str, fields: Any) -> List[Dict[str, Any]]:
        return [dict(zip(fields, one)) for one in told[part]]

    return {"time": told["time"], "saves": [Save(*one) for one in told.get("saves", [])], "uptime_s": told["up"],
            "failure": told["failure"], "end": told.get("end"), "trainer": {"run": run},
            "tables": [{"name": name, **dict(zip(TABLE_FIELDS, values))} for name, values in told["tables"].items()],
            "rings": dicts("rings", _RING_FIELDS), "waits": dicts("waits", _WAIT_FIELDS),
            "workers": dicts("workers", _WORKER_FIELDS), "exchanges": told["exchanges"], "reading": told["reading"]}


def thinned(lines: Sequence[str]) -> List[str]:
    """Return every other sample line of a record. Saves of a removed line are added to the next line that is kept.

    The newest ``MOST_SAVES`` saves are kept.
    """
    samples = [json.loads(line) for line in lines]
    kept = samples[::2]
    saves = [(min((number + 1) // 2, len(kept) - 1), save)
             for number, sample in enumerate(samples) for save in sample.pop("saves", [])]
    for number, save in saves[-MOST_SAVES:]:
        kept[number].setdefault("saves", []).append(save)
    return [json.dumps(sample, separators=(",", ":")) for sample in kept]


def names() -> List[str]:
    """Return the names of all records, newest first."""
    base = base_dir()
    found = []
    for entry in os.scandir(base) if os.path.isdir(base) else []:
        if entry.name.endswith(SUFFIX):
            with contextlib.suppress(FileNotFoundError):  # another daemon has just removed it
                found.append((entry.stat().st_mtime, entry.name[:-len(SUFFIX)]))
    return [name for _, name in sorted(found, reverse=True)]


def superseded(known: Sequence[str], most: int, running: Collection[str]) -> List[str]:
    """Return the names of the records to remove, so that ``most`` records are kept.

    The newest record of each running daemon is kept in addition, because the daemon may still write it.

    Args:
        known: names of all records, newest first.
        most: number of records to keep.
        running: names of running daemons.
    """
    daemons = [name.rpartition("-")[0] for name in known]
    return [name for place, name in enumerate(known)
            if place >= most and (daemons[place] not in running or daemons[place] in daemons[:place])]


def read(name: str) -> Record:
    """Read a record. If the last line of the file is incomplete, the line is ignored.

    Raises:
        ValueError: the file has another format, or is damaged.
        OSError: the file cannot be read.
    """
    with open(os.path.join(base_dir(), name + SUFFIX), encoding="utf-8") as file:
        lines = file.read(_MOST_BYTES).splitlines()
    try:
        head = json.loads(lines[0])
        if head["format"] != FORMAT:
            raise ValueError("the record has format {}, and this version reads format {}".format(
                head["format"], FORMAT))
        samples = [unpacked(line, head["run"]) for line in lines[1:-1]]
    except (IndexError, KeyError, TypeError) as error:
        raise ValueError("the record is damaged: {!r}".format(error)) from error
    try:
        samples += [unpacked(line, head["run"]) for line in lines[1:][-1:]]
    except ValueError:
        pass  # the daemon was killed while it wrote this line
    return Record(name, head, samples)
