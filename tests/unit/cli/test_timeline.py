"""Spans of workers become events of a Chrome trace, alone or beside TensorFlow's."""
import click
import pytest

from ascpipe.cli import timeline
from ascpipe.shm import spans

WORKER = spans.Recorded("table", 1, 77, [
    spans.Span(5000000, 3000, 0, [("touch", 1, 9), ("plan", 2, 6)]),
    spans.Span(9000000000, 1000, 0, [("retire", 1, 6)])])


def test_a_span_is_a_complete_event_of_its_process_in_microseconds():
    named, first, _ = timeline.events_of(WORKER)
    assert (named["ph"], named["pid"], named["args"]) == ("M", 77, {"name": "ascpipe table worker 1"})
    assert (first["ph"], first["pid"], first["ts"], first["dur"]) == ("X", 77, 5000.0, 3.0)
    assert (first["name"], first["args"]) == ("touch 9, plan 6", {"stream": 0, "batches": {"touch": 1, "plan": 2}})


def test_of_a_trace_that_is_merged_everything_stays_and_of_ours_what_is_near():
    theirs = [{"ph": "M", "pid": 1}, {"ph": "X", "pid": 1, "ts": 5100.0, "dur": 50.0}]
    ours = timeline.events_of(WORKER)
    assert timeline.merged(theirs, ours) == theirs + ours[:2]


@pytest.mark.parametrize("content", ["no json", "[]", "{}", '{"traceEvents": 3}', '{"traceEvents": [3]}'])
def test_a_file_that_is_no_trace_is_wrong_usage(tmp_path, content):
    (tmp_path / "trace").write_text(content)
    with pytest.raises(click.BadParameter, match="no Chrome trace"):
        timeline._events(str(tmp_path / "trace"))


def test_a_trace_without_times_is_wrong_usage():
    with pytest.raises(click.BadParameter, match="no events with times"):
        timeline.merged([{"ph": "M"}], [])
