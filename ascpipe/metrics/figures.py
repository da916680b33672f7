"""Definitions of all metrics, with the functions that compute the values from an answer to ``status``.

``ascpipe status --json`` prints the same answer, and docs/reference/metrics.md documents the metrics. Counters of a
session start at 0 in each session. Counters of a daemon increase until it exits.
"""
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Tuple

COUNTER = "counter"
GAUGE = "gauge"
DAEMON = "daemon"  #: first label of every metric
STATES = ("idle", "registered", "serving", "failed", "stopped")  #: states of a daemon

Status = Dict[str, Any]
Sample = Tuple[Tuple[str, ...], float]
Samples = Callable[[Status], Iterable[Sample]]

_NOTHING = "nothing"  # value of ``waits_for`` of a process that does not wait
_US = 1e-6


class Metric(NamedTuple):
    """Definition of a metric.

    Attributes:
        name: Prometheus name. The name of a counter ends in ``_total``, after the unit.
        kind: COUNTER or GAUGE.
        unit: ``bytes``, ``seconds``, or an empty string for a count.
        labels: labels in addition to DAEMON.
        text: help text.
        samples: function that returns (label values, number) for each item of a status.
    """

    name: str
    kind: str
    unit: str
    labels: Tuple[str, ...]
    text: str
    samples: Samples


def samples_of(metric: Metric, status: Status) -> Iterator[Sample]:
    """Yield (label values, value) for each sample of a metric. The first label value is the daemon's name."""
    for labels, value in metric.samples(status):
        yield (status["name"], *labels), float(value)


def _number(read: Callable[[Status], Any]) -> Samples:
    """Return a ``Metric.samples`` function for a metric that has one sample per daemon."""
    return lambda status: [((), float(read(status)))]


def _of_each(part: str, labels: Callable[[Status], Tuple[str, ...]], read: Callable[[Status], Any]) -> Samples:
    """Return a ``Metric.samples`` function for a metric that has one sample per item of the list ``status[part]``."""
    return lambda status: [(labels(item), float(read(item))) for item in status[part]]


def _workers(read: Callable[[Status], Any]) -> Samples:
    return _of_each("workers", lambda item: ("{} {}".format(item["kind"], item["index"]),), read)


def _tables(key: str) -> Samples:
    return _of_each("tables", lambda item: (item["name"],), lambda item: item[key])


def _disks(key: str, scale: float = 1.0) -> Samples:
    return _of_each("disks", lambda item: (item["directory"],), lambda item: item[key] * scale)


def _rings(key: str) -> Samples:
    return _of_each("rings", lambda item: (str(item["stream"]), item["channel"]), lambda item: item[key])


def _processes(key: str) -> Samples:
    return _of_each("waits", lambda item: (item["who"],), lambda item: item[key])


def _exchanges(key: str) -> Samples:
    """Return a ``Metric.samples`` function that returns the value of ``key`` in the statistics of exchanges.

    The function returns no sample if there is only one rank or the status has no number.
    """
    def read(status: Status) -> List[Sample]:
        exchanges = status["exchanges"]
        return [] if exchanges is None or exchanges[key] is None else [((), float(exchanges[key]))]

    return read


def _reading(key: str) -> Samples:
    """Return a ``Metric.samples`` function that returns the value of ``key`` in the statistics of readers.

    If the status has no statistics of readers, the function returns no sample.
    """
    def read(status: Status) -> List[Sample]:
        reading = status.get("reading")  # daemons of earlier versions do not send this field
        return [] if reading is None else [((), float(reading[key]))]

    return read


def _times(operation: str) -> Samples:
    """Return a ``Metric.samples`` function that returns the median and the 99th percentile of a disk operation's
    duration.
    """
    def read(status: Status) -> Iterator[Sample]:
        for disk in status["disks"]:
            for quantile, name in (("0.5", "p50"), ("0.99", "p99")):
                yield (disk["directory"], quantile), disk["{}_{}_us".format(operation, name)] * _US

    return read


def _states(status: Status) -> List[Sample]:
    return [((state,), float(status["state"] == state)) for state in STATES]


def _waiting(status: Status) -> List[Sample]:
    return [((item["who"], item["waits_for"], item["table"] or ""), 1.0)
            for item in status["waits"] if item["waits_for"] != _NOTHING]


def _last_save(status: Status) -> List[Sample]:
    return [] if status["last_save"] is None else [((), float(status["last_save"]["at"]))]


_TABLE = ("table",)
_DISK = ("disk",)
_RING = ("stream", "channel")
_WORKER = ("worker",)
_PROCESS = ("process",)

METRICS: Tuple[Metric, ...] = (
    Metric("ascpipe_build_info", GAUGE, "", ("version",), "1; the version of ascpipe.",
           lambda status: [((status["version"],), 1.0)]),
    Metric("ascpipe_uptime_seconds", GAUGE, "seconds", (), "Time since the daemon started.",
           _number(lambda status: status["uptime_s"])),
    Metric("ascpipe_private", GAUGE, "", (), "1: the daemon ends with its trainer.",
           _number(lambda status: status["private"])),
    Metric("ascpipe_state", GAUGE, "", ("state",), "1 for the daemon's current state, 0 for other states.", _states),
    Metric("ascpipe_session_run", GAUGE, "", (),
           "Number of the session; 0: no trainer. Counters of tables, disks, rings and waits restart with it.",
           _number(lambda status: 0 if status["trainer"] is None else status["trainer"]["run"])),
    Metric("ascpipe_session_failed", GAUGE, "", (), "1: the session has failed.",
           _number(lambda status: status["failure"] is not None)),
    Metric("ascpipe_sessions_failed_total", COUNTER, "", (),
           "Sessions that failed or whose trainer died, since the daemon started.",
           _number(lambda status: status["sessions_failed"])),
    Metric("ascpipe_last_save_timestamp_seconds", GAUGE, "seconds", (),
           "Time at which the newest checkpoint was complete, since 1970; absent before the session's first one.",
           _last_save),
    Metric("ascpipe_template_ready", GAUGE, "", (), "1: the template process is loaded.",
           _number(lambda status: status["template"] == "ready")),
    Metric("ascpipe_compiling", GAUGE, "", (), "1: workers compile kernels, once for each version; training waits.",
           _number(lambda status: status["compiling"])),
    Metric("ascpipe_trace_spans", GAUGE, "", (), "Maximum number of spans per worker for a trace; 0: off.",
           _number(lambda status: status["trace"]["spans"])),
    Metric("ascpipe_messages_refused_total", COUNTER, "", (), "Malformed control messages.",
           _number(lambda status: status["messages"]["refused"])),
    Metric("ascpipe_messages_dropped_total", COUNTER, "", (), "Control connections that were closed without an answer.",
           _number(lambda status: status["messages"]["dropped"])),

    Metric("ascpipe_worker_running", GAUGE, "", _WORKER, "1: the worker has a process.",
           _workers(lambda worker: bool(worker["pid"]))),
    Metric("ascpipe_worker_attached", GAUGE, "", _WORKER, "1: the worker serves a session.",
           _workers(lambda worker: worker["attached"])),
    Metric("ascpipe_worker_restarts_total", COUNTER, "", _WORKER, "Times the worker was replaced in this session.",
           _workers(lambda worker: worker["restarts"])),
    Metric("ascpipe_worker_hang_seconds", GAUGE, "seconds", _WORKER, "Time without progress; 0: it makes progress.",
           _workers(lambda worker: worker["hangs_s"])),

    Metric("ascpipe_table_keys", GAUGE, "", _TABLE, "Keys that have a row.", _tables("keys")),
    Metric("ascpipe_table_dim", GAUGE, "", _TABLE, "Dimension of an embedding.", _tables("dim")),
    Metric("ascpipe_table_device_rows", GAUGE, "", _TABLE, "Rows that fit on the device.", _tables("device_rows")),
    Metric("ascpipe_table_home_rows", GAUGE, "", _TABLE, "Rows that fit in host memory; 0: no host tier.",
           _tables("home_rows")),
    Metric("ascpipe_table_host_bytes", GAUGE, "bytes", _TABLE, "Host memory of its entries and rows.",
           _tables("host_bytes")),
    Metric("ascpipe_table_batches_total", COUNTER, "", _TABLE, "Trained batches.", _tables("batches")),
    Metric("ascpipe_table_ids_total", COUNTER, "", _TABLE, "Ids of trained batches.", _tables("ids")),
    Metric("ascpipe_table_hits_total", COUNTER, "", _TABLE,
           "Distinct keys of trained batches whose rows were on the device.", _tables("hits")),
    Metric("ascpipe_table_misses_total", COUNTER, "", _TABLE, "Distinct keys of trained batches without a device row.",
           _tables("misses")),
    Metric("ascpipe_table_loads_total", COUNTER, "", _TABLE,
           "Misses whose row was swapped in from the host; all other misses were new keys.", _tables("loads")),
    Metric("ascpipe_table_evicted_total", COUNTER, "", _TABLE, "Keys deleted by feature eviction.", _tables("evicted")),
    Metric("ascpipe_table_unlogged_total", COUNTER, "", _TABLE,
           "Keys that the eviction log lacks, because it could not be written.", _tables("unlogged")),
    Metric("ascpipe_table_save_waits_total", COUNTER, "", _TABLE, "Times that training waited for a save's log.",
           _tables("save_waits")),
    Metric("ascpipe_table_disk_slots", GAUGE, "", _TABLE, "Rows that fit on disk; 0: no disk tier.",
           _tables("disk_slots")),
    Metric("ascpipe_table_disk_rows", GAUGE, "", _TABLE, "Rows on disk.", _tables("disk_rows")),
    Metric("ascpipe_table_fetches_total", COUNTER, "", _TABLE, "Rows read from disk into host memory.",
           _tables("fetches")),
    Metric("ascpipe_table_spills_total", COUNTER, "", _TABLE, "Rows written to disk.", _tables("spills")),
    Metric("ascpipe_table_disk_waits_total", COUNTER, "", _TABLE, "Times that a plan waited for rows from disk.",
           _tables("disk_waits")),

    Metric("ascpipe_disk_queued", GAUGE, "", _DISK, "Operations waiting for a thread.", _disks("queued")),
    Metric("ascpipe_disk_under_way", GAUGE, "", _DISK, "Operations in flight.", _disks("under_way")),
    Metric("ascpipe_disk_deepest", GAUGE, "", _DISK, "Maximum number of operations in flight.",
           _disks("deepest")),
    Metric("ascpipe_disk_delayed_total", COUNTER, "", _DISK, "Operations that waited for another on the same block.",
           _disks("delayed")),
    Metric("ascpipe_disk_rows_read_total", COUNTER, "", _DISK, "Rows read.", _disks("rows_read")),
    Metric("ascpipe_disk_rows_written_total", COUNTER, "", _DISK, "Rows written.", _disks("rows_written")),
    Metric("ascpipe_disk_read_bytes_total", COUNTER, "bytes", _DISK, "Bytes read.", _disks("read_bytes")),
    Metric("ascpipe_disk_written_bytes_total", COUNTER, "bytes", _DISK, "Bytes written.", _disks("written_bytes")),
    Metric("ascpipe_disk_read_seconds", GAUGE, "seconds", (*_DISK, "quantile"), "Duration of a read.",
           _times("read")),
    Metric("ascpipe_disk_write_seconds", GAUGE, "seconds", (*_DISK, "quantile"), "Duration of a write.",
           _times("write")),

    Metric("ascpipe_ring_depth", GAUGE, "", _RING, "Batches in the ring.", _rings("depth")),
    Metric("ascpipe_ring_frame_limit", GAUGE, "", _RING, "Maximum of ascpipe_ring_depth.", _rings("frame_count")),
    Metric("ascpipe_ring_parked", GAUGE, "", _RING, "Batches that wait for space in the ring.", _rings("parked")),
    Metric("ascpipe_ring_used_bytes", GAUGE, "bytes", _RING, "Memory in use.", _rings("used_bytes")),
    Metric("ascpipe_ring_arena_bytes", GAUGE, "bytes", _RING, "Size of the ring.", _rings("arena_bytes")),
    Metric("ascpipe_ring_submitted_total", COUNTER, "", _RING, "Submitted batches.", _rings("submitted")),
    Metric("ascpipe_ring_frames_total", COUNTER, "", _RING, "Batches that were copied into a frame.", _rings("frames")),
    Metric("ascpipe_ring_dropped_total", COUNTER, "", _RING, "Batches that were dropped before they got a frame.",
           _rings("dropped")),
    Metric("ascpipe_ring_trained_total", COUNTER, "", _RING, "Trained or evaluated batches.",
           _rings("trained")),
    Metric("ascpipe_ring_ids_total", COUNTER, "", _RING, "Ids that were copied into frames.", _rings("ids")),

    Metric("ascpipe_process_asleep", GAUGE, "", _PROCESS, "1: the process sleeps until it is woken.",
           _processes("asleep")),
    Metric("ascpipe_process_sleeps_total", COUNTER, "", _PROCESS, "Times that the process went to sleep.",
           _processes("sleeps")),
    Metric("ascpipe_process_late_total", COUNTER, "", _PROCESS, "Lost wake-ups; must stay 0.",
           _processes("late")),
    Metric("ascpipe_process_waits", GAUGE, "", (*_PROCESS, "waits_for", "table"),
           "1: what the process waits for now; absent if it does not wait.", _waiting),

    Metric("ascpipe_reading_readers", GAUGE, "", (),
           "Threads that read training data; this and the next metrics are absent without asc.data.read.",
           _reading("readers")),
    Metric("ascpipe_reading_records_total", COUNTER, "", (), "Records read.", _reading("records")),
    Metric("ascpipe_reading_bytes_total", COUNTER, "bytes", (), "Decompressed bytes of the records.",
           _reading("bytes")),
    Metric("ascpipe_reading_batches_total", COUNTER, "", (), "Batches read.", _reading("batches")),
    Metric("ascpipe_reading_skipped_total", COUNTER, "", (), "Bad records that were skipped.", _reading("skipped")),
    Metric("ascpipe_reading_read_seconds_total", COUNTER, "seconds", (),
           "Time in which readers read, decompress and verify records, over all readers.", _reading("read_s")),
    Metric("ascpipe_reading_parse_seconds_total", COUNTER, "seconds", (),
           "Time in which readers parse records, over all readers.", _reading("parse_s")),
    Metric("ascpipe_reading_full_seconds_total", COUNTER, "seconds", (),
           "Time in which readers wait because read_ahead batches are ready, over all readers.", _reading("full_s")),
    Metric("ascpipe_reading_wait_seconds_total", COUNTER, "seconds", (),
           "Time in which the program waits for a batch of asc.data.read.", _reading("waited_s")),

    Metric("ascpipe_rank", GAUGE, "", (), "Number of this rank; this and all metrics below are absent with one rank.",
           _exchanges("rank")),
    Metric("ascpipe_ranks", GAUGE, "", (), "Number of ranks.", _exchanges("ranks")),
    Metric("ascpipe_exchanges_total", COUNTER, "", (), "Exchanges with other ranks.", _exchanges("exchanges")),
    Metric("ascpipe_exchange_sent_bytes_total", COUNTER, "bytes", (), "Bytes sent to other ranks.",
           _exchanges("bytes_sent")),
    Metric("ascpipe_exchange_received_bytes_total", COUNTER, "bytes", (), "Bytes received from other ranks.",
           _exchanges("bytes_received")),
    Metric("ascpipe_exchange_seconds_total", COUNTER, "seconds", (), "Time in exchanges.", _exchanges("time_s")),
    Metric("ascpipe_exchange_wait_seconds_total", COUNTER, "seconds", (), "Time until the last rank joined.",
           _exchanges("waited_s")),
    Metric("ascpipe_exchange_pending_seconds", GAUGE, "seconds", (),
           "Duration of the current exchange; absent if there is none.", _exchanges("since_s")),
    Metric("ascpipe_slowest_rank", GAUGE, "", (), "The rank that other ranks have waited for longest.",
           _exchanges("slowest")),
    Metric("ascpipe_slowest_rank_wait_seconds", GAUGE, "seconds", (),
           "Time that other ranks have waited for that rank.", _exchanges("slowest_s")),
)

#: The exporter writes this metric even if the daemon does not answer.
UP = Metric("ascpipe_up", GAUGE, "", (), "1: the daemon answered; 0: it did not, and other metrics are absent.",
            _number(lambda _: 1))
