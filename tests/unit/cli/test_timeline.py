"""Spans of workers become events of a Chrome trace, alone or beside TensorFlow's."""
import click
import pytest
from click.testing import CliRunner

from ascpipe.cli import timeline
from ascpipe.cli.main import main
from ascpipe.errors import ConfigError, NotRunningError
from ascpipe.shm import spans, trainer_spans

WORKER = spans.Recorded("table", 1, 77, [
    spans.Span(5000000, 3000, 0, [("touch", 1, 9), ("plan", 2, 6)]),
    spans.Span(9000000000, 1000, 0, [("retire", 1, 6)])])


def test_a_span_is_a_complete_event_of_its_process_in_microseconds():
    named, first, _ = timeline.events_of(WORKER)
    assert (named["ph"], named["pid"], named["args"]) == ("M", 77, {"name": "ascpipe table worker 1"})
    assert (first["ph"], first["pid"], first["ts"], first["dur"]) == ("X", 77, 5000.0, 3.0)
    assert (first["name"], first["args"]) == ("touch 9, plan 6", {"stream": 0, "batches": {"touch": 1, "plan": 2}})


def exchanges(rank):
    return trainer_spans.RecordedExchanges(rank, 70 + rank, [
        trainer_spans.ExchangeSpan(5000000, 3000, "forward", 11, 2, 9, 100, 200, 1, 1 - rank),
        trainer_spans.ExchangeSpan(6000000, 1000, "ask", 12, 0, 0, 10, 20, 0, None)])


def test_an_exchange_is_an_event_in_a_row_of_its_rank():
    named, first, second = timeline.events_of_exchanges(exchanges(1))
    assert (named["pid"], named["args"]) == (71, {"name": "ascpipe exchanges of rank 1"})
    assert (first["ph"], first["pid"], first["ts"], first["dur"], first["name"]) == ("X", 71, 5000.0, 3.0, "forward 9")
    assert first["args"] == {"rank": 1, "kind": "forward", "sequence": 11, "stream": 2, "ticket": 9, "bytes_sent": 100,
                             "bytes_received": 200, "waited_us": 1, "last": 0}
    assert (second["name"], second["args"]["last"]) == ("ask", None)


READING = trainer_spans.RecordedReading(0, 70, [
    trainer_spans.ReadingSpan(9000000, read_us=3, parse_us=4, full_us=2, batch=1, epoch=0, records=64, source=1,
                              thread=91),
    trainer_spans.ReadingSpan(9001000, read_us=5, parse_us=6, full_us=0, batch=2, epoch=0, records=64, source=1,
                              thread=92)])


def test_a_batch_of_a_reader_is_up_to_three_events_one_after_the_other_in_a_row_of_its_thread():
    (named, *first), (_, *second) = timeline.events_of_readers(READING)
    assert (named["pid"], named["args"]) == (91, {"name": "ascpipe reader 0"})
    assert [(event["name"], event["pid"], event["ts"], event["dur"]) for event in first] == [
        ("full 1", 91, 8998.0, 2.0), ("read 1", 91, 9000.0, 3.0), ("parse 1", 91, 9003.0, 4.0)]
    assert first[0]["args"] == {"batch": 1, "epoch": 0, "records": 64, "source": 1}
    assert [event["name"] for event in second] == ["read 2", "parse 2"]


def test_of_exchanges_those_of_the_time_of_the_trace_are_shown():
    def starts(since_ns, until_ns):
        found = timeline.within(exchanges(0), {"since_ns": since_ns, "until_ns": until_ns})
        return None if found is None else [span.start_ns for span in found.spans]

    assert starts(1, 0) == [5000000, 6000000]
    assert starts(5000001, 0) == [6000000]
    assert starts(1, 5999999) == [5000000]
    assert starts(0, 0) is None  # there was no trace
    assert timeline.within(None, {"since_ns": 1, "until_ns": 0}) is None


def rows(*daemons):
    """Names of the rows, by their places."""
    events = timeline.events_of_daemons(list(daemons))
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    places = {event["args"]["sort_index"]: event["pid"] for event in events if event["name"] == "process_sort_index"}
    return [names[places[place]] for place in sorted(places)]


def test_ranks_stand_above_each_other_each_with_its_workers():
    later = timeline.Recorded("b", exchanges(1), None, [WORKER._replace(pid=81)])
    assert rows(later, timeline.Recorded("a", exchanges(0), READING, [WORKER._replace(pid=80)])) == [
        "ascpipe exchanges of rank 0", "ascpipe reader 0 of rank 0", "ascpipe reader 1 of rank 0",
        "ascpipe table worker 1 of rank 0",
        "ascpipe exchanges of rank 1", "ascpipe table worker 1 of rank 1"]


def test_of_several_daemons_of_one_rank_each_each_row_names_its_own():
    assert rows(timeline.Recorded("a", None, None, [WORKER])) == ["ascpipe table worker 1"]
    second = timeline.Recorded("b", None, None, [WORKER._replace(pid=78)])
    assert rows(timeline.Recorded("a", None, None, [WORKER]), second) == [
        "ascpipe table worker 1 of a", "ascpipe table worker 1 of b"]


def test_all_takes_the_daemons_that_keep_spans(monkeypatch, tmp_path):
    def of(name):
        if name == "none":
            raise ConfigError("timeline_spans", "daemon", 0, "it keeps none")
        if name == "ended":
            raise NotRunningError(name, "/nowhere")
        return timeline.Recorded(name, None, None, [WORKER])

    monkeypatch.setattr(timeline, "_of_daemon", of)
    monkeypatch.setattr(timeline, "running_daemons", lambda: ["none", "mine", "ended"])
    assert [one.name for one in timeline._of_all()] == ["mine"]
    monkeypatch.setattr(timeline, "running_daemons", lambda: ["none"])
    done = CliRunner().invoke(main, ["timeline", "--all", "--output", str(tmp_path / "trace")])
    assert done.exit_code == 2
    assert "none records spans" in done.output


def test_all_beside_a_name_is_wrong_usage(tmp_path):
    done = CliRunner().invoke(main, ["timeline", "--all", "--name", "a", "--output", str(tmp_path / "trace")])
    assert (done.exit_code, "omit --name" in done.output) == (2, True)


def test_of_a_trace_that_is_merged_everything_stays_and_of_ours_what_is_near():
    theirs = [{"ph": "M", "pid": 1}, {"ph": "X", "pid": 1, "ts": 5100.0, "dur": 50.0}]
    ours = timeline.events_of(WORKER)
    assert timeline.merged(theirs, ours) == theirs + ours[:2]


@pytest.mark.parametrize("content", ["no json", "[]", "{}", '{"traceEvents": 3}', '{"traceEvents": [3]}'])
def test_a_file_that_is_no_trace_is_wrong_usage(tmp_path, content):
    (tmp_path / "trace").write_text(content)
    with pytest.raises(click.BadParameter, match="not a Chrome trace"):
        timeline._events(str(tmp_path / "trace"))


def test_a_trace_without_times_is_wrong_usage():
    with pytest.raises(click.BadParameter, match="no events with times"):
        timeline.merged([{"ph": "M"}], [])


def test_the_last_seconds_are_those_before_the_end_of_the_last_event():
    named = {"ph": "M", "name": "process_name"}
    events = [named, *({"ts": ts, "dur": dur} for ts, dur in ((0.0, 5e5), (1e6, 9e6), (8e6, 1e6), (9.5e6, 5e5)))]
    assert timeline.last(events, 1.0) == [named, *events[2:]]
    assert timeline.last(events, 0.5) == [named, events[2], events[4]]
    assert timeline.last(events, 100.0) == events
    assert timeline.last([named], 1.0) == [named]
