"""The table of metrics: names are Prometheus', every figure of a status is in it, and each reads its own."""
import math
import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ascpipe.daemon import lifecycle
from ascpipe.metrics import exposition, figures
from tests.support.statuses import status

#: keys of a status that no metric has: names, and what follows from others
LEFT_OUT = {"pid", "generation", "table", "ticket", "rows", "row_floats", "hit_rate", "since_ns", "until_ns"}
OF_LISTS = {"workers": ("kind", "index"), "tables": ("name",), "disks": ("directory",), "rings": ("stream", "channel"),
            "waits": ("who",)}
BY_NAME = {metric.name: metric for metric in figures.METRICS}


def read(body):
    """Metrics as a scrape finds them: (name, labels without the daemon's) -> number."""
    found = {}
    for family in text_string_to_metric_families(exposition.text("unit", body).decode()):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("daemon") == "unit"
            key = sample.name, tuple(sorted(labels.items()))
            assert key not in found, "twice: {}".format(key)
            found[key] = sample.value
    return found


def value(body, name, **labels):
    return read(body).get((name, tuple(sorted(labels.items()))))


@pytest.mark.parametrize("metric", [*figures.METRICS, figures.UP], ids=lambda metric: metric.name)
def test_names_follow_the_conventions_of_prometheus(metric):
    assert re.fullmatch(r"ascpipe(_[a-z]+)+", metric.name)
    assert metric.kind in (figures.COUNTER, figures.GAUGE)
    assert metric.name.endswith("_total") == (metric.kind == figures.COUNTER)
    assert metric.unit in ("", "bytes", "seconds")
    base = metric.name[:-len("_total")] if metric.kind == figures.COUNTER else metric.name
    for unit in ("bytes", "seconds"):
        assert base.endswith("_" + unit) == (metric.unit == unit)
    assert not re.search(r"_(us|ms|s|mib|kb|count|number)(_|$)", metric.name)
    assert all(re.fullmatch(r"[a-z_]+", label) and label != figures.DAEMON for label in metric.labels)
    assert metric.text.endswith(".")


def test_each_name_is_there_once():
    assert len(BY_NAME) == len(figures.METRICS)


def test_every_state_of_a_daemon_is_known():
    assert set(figures.STATES) == {lifecycle.IDLE, lifecycle.REGISTERED, lifecycle.SERVING, lifecycle.FAILED,
                                   lifecycle.STOPPED}


def test_every_sample_has_the_labels_of_its_metric():
    for metric in figures.METRICS:
        samples = list(figures.samples_of(metric, status()))
        assert samples, metric.name
        for labels, number in samples:
            assert len(labels) == 1 + len(metric.labels) and all(isinstance(label, str) for label in labels)
            assert labels[0] == "unit" and isinstance(number, float) and math.isfinite(number)


def changed(body, path):
    """The status with one number or text changed."""
    key, rest = path[0], path[1:]
    copy = dict(body) if isinstance(body, dict) else list(body)
    if rest:
        copy[key] = changed(body[key], rest)
    elif isinstance(body[key], bool):
        copy[key] = not body[key]
    elif isinstance(body[key], str):
        copy[key] = body[key] + "x"
    else:
        copy[key] = "a reason" if body[key] is None else body[key] + 1
    return copy


def leaves(body, path=()):
    """The ways to all numbers, truths and texts of a status."""
    items = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    for key, item in items:
        if isinstance(item, (dict, list)):
            yield from leaves(item, (*path, key))
        else:
            yield (*path, key)


def is_told(path):
    return not (path[-1] in LEFT_OUT or path[0] == "name" or path[:2] == ("trainer", "since")
                or path[0] == "last_save" and path[1] != "at"
                or path[0] == "exchanges" and path[1] in ("stream", "does"))


def test_every_figure_of_a_status_is_exported():
    before = read(status())
    silent = [path for path in leaves(status())
              if is_told(path) and not (path[0] == "workers" and path[-1] == "pid")
              and read(changed(status(), path)) == before]
    assert silent == []


def test_no_figure_is_left_out_that_a_metric_has():
    before = read(status())
    told = {path[-1] for path in leaves(status())
            if path[-1] in LEFT_OUT and path[0] not in ("workers", "waits") and read(changed(status(), path)) != before}
    assert told == set()


def test_a_figure_is_that_of_its_own_key():
    body = status()
    user, disk, ring, exchanges = body["tables"][0], body["disks"][0], body["rings"][1], body["exchanges"]
    for key in ("keys", "dim", "device_rows", "home_rows", "host_bytes", "disk_slots", "disk_rows"):
        assert value(body, "ascpipe_table_" + key, table="user") == user[key]
    for key in ("batches", "ids", "hits", "misses", "loads", "evicted", "unlogged", "save_waits", "fetches", "spills",
                "disk_waits"):
        assert value(body, "ascpipe_table_{}_total".format(key), table="user") == user[key]
    for key in ("delayed", "rows_read", "rows_written", "read_bytes", "written_bytes"):
        assert value(body, "ascpipe_disk_{}_total".format(key), disk="/mnt/nvme") == disk[key]
    for key in ("queued", "under_way", "deepest"):
        assert value(body, "ascpipe_disk_" + key, disk="/mnt/nvme") == disk[key]
    for key in ("submitted", "frames", "dropped", "trained", "ids"):
        assert value(body, "ascpipe_ring_{}_total".format(key), stream=str(ring["stream"]),
                     channel="eval") == ring[key]
    for key, name in (("depth", "depth"), ("frame_count", "frame_limit"), ("parked", "parked"),
                      ("used_bytes", "used_bytes"), ("arena_bytes", "arena_bytes")):
        assert value(body, "ascpipe_ring_" + name, stream=str(ring["stream"]), channel="eval") == ring[key]
    for key, name in (("rank", "rank"), ("ranks", "ranks"), ("exchanges", "exchanges_total"),
                      ("bytes_sent", "exchange_sent_bytes_total"), ("bytes_received", "exchange_received_bytes_total"),
                      ("time_s", "exchange_seconds_total"), ("waited_s", "exchange_wait_seconds_total"),
                      ("since_s", "exchange_pending_seconds"), ("slowest", "slowest_rank"),
                      ("slowest_s", "slowest_rank_wait_seconds")):
        assert value(body, "ascpipe_" + name) == exchanges[key]
    for quantile, key in (("0.5", "p50"), ("0.99", "p99")):
        for what in ("read", "write"):
            assert value(body, "ascpipe_disk_{}_seconds".format(what), disk="/mnt/nvme",
                         quantile=quantile) == pytest.approx(disk["{}_{}_us".format(what, key)] / 1e6)


def test_the_last_checkpoint_has_a_time_if_there_is_one():
    name = "ascpipe_last_save_timestamp_seconds"
    assert (value(status(), name), value(status(last_save=None), name)) == (1500.0, None)


def test_what_a_process_waits_for_is_a_line_of_its_own_and_none_for_nothing():
    lines = {labels: number for (name, labels), number in read(status()).items() if name == "ascpipe_process_waits"}
    assert lines == {(("process", "trainer"), ("table", "user"), ("waits_for", "the table worker to plan it")): 1.0}


def test_states_and_sessions_are_numbers():
    body = status(trainer=None, failure="it broke", state="failed", template="gone")
    assert value(body, "ascpipe_session_run") == 0
    assert value(status(), "ascpipe_session_run") == 44
    assert (value(body, "ascpipe_session_failed"), value(status(), "ascpipe_session_failed")) == (1, 0)
    assert (value(body, "ascpipe_template_ready"), value(status(), "ascpipe_template_ready")) == (0, 1)
    assert [value(body, "ascpipe_state", state=state) for state in figures.STATES] == [0, 0, 0, 1, 0]
    assert value(body, "ascpipe_worker_hang_seconds", worker="table 1") == 7.5
    assert value(body, "ascpipe_worker_running", worker="table 1") == 0


def test_with_one_rank_and_without_a_session_there_are_no_lines_of_them():
    body = status(tables=[], disks=[], rings=[], waits=[], exchanges=None)
    for name, _ in read(body):
        assert not re.match(r"ascpipe_(table|disk|ring|process|rank|exchange|slowest)", name)
    pending = {**status()["exchanges"], "since_s": None}
    assert value(status(exchanges=pending), "ascpipe_exchange_pending_seconds") is None


def test_a_daemon_that_does_not_answer_is_down_and_nothing_else_is_said():
    assert read(None) == {("ascpipe_up", ()): 0.0}
    assert value(status(), "ascpipe_up") == 1.0


def test_names_of_tables_are_escaped():
    assert b'table="a \\"table\\""' in exposition.text("unit", status())
