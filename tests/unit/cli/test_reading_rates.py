"""Rates of ``asc.data.read``, and whether it or the program's own pipeline is the slow input."""
import pytest

from ascpipe.cli import stats, status, top_screen
from ascpipe.figures import reading, summary
from tests.unit.cli.test_rates import look
from tests.unit.cli.test_status_text import STATUS, shown

NONE = {"readers": 0, "records": 0, "bytes": 0, "batches": 0, "skipped": 0, "read_s": 0.0, "parse_s": 0.0,
        "full_s": 0.0, "waited_s": 0.0}


def looks(*, run=1, **counted):
    """Answers at 0 and 10 s, between which the counters change."""
    old = {**NONE, "readers": counted.get("readers", 0), "records": 100, "read_s": 5.0}
    new = {**old, **counted}
    return [{**look(0.0, depth=1), "reading": old}, {**look(10.0, depth=1, run=run), "reading": new}]


def test_rates_are_per_second_and_shares_are_of_the_time_of_readers():
    told = reading.reading_rates(*looks(readers=2, records=600, bytes=3 * 10**6, batches=50, skipped=20, read_s=8.0,
                                        parse_s=9.0, full_s=6.0, waited_s=2.5))
    assert told == {"readers": 2, "records": 50.0, "bytes": 3e5, "batches": 5.0, "skipped": 2.0, "busy": 0.6,
                    "reading": 0.25, "full": 0.3, "waited": 0.25}


def test_another_run_counts_from_zero():
    assert reading.reading_rates(*looks(run=2, readers=1, records=90))["records"] == 9.0


def test_a_trainer_without_readers_has_no_rates():
    assert reading.reading_rates(look(0.0), look(1.0)) is None
    assert reading.reading_rates(look(1.0), look(1.0)) is None


@pytest.mark.parametrize("counted, text", [
    ({"readers": 2, "batches": 9, "read_s": 6.0, "parse_s": 18.6, "waited_s": 9.0},
     "asc.data.read (readers busy 98 %; more readers= may help)"),
    ({"readers": 2, "batches": 9, "read_s": 20.0, "parse_s": 5.0, "waited_s": 5.0},
     "asc.data.read (readers busy 100 %, 75 % of it in reads; more readers= may help)"),
    ({"readers": 2, "batches": 9, "read_s": 10.0, "parse_s": 3.0, "waited_s": 9.0},
     "asc.data.read (readers busy 40 %; more read_ahead= may help)"),
    ({"readers": 1, "batches": 9, "read_s": 6.0, "waited_s": 4.9},
     "the stages after asc.data.read, such as map and transform= (readers busy 10 %)"),
    ({}, "the program's own tf.data pipeline"),
])
def test_the_slow_part_of_the_input_is_where_the_program_waits(counted, text):
    assert reading.slow_input(looks(**counted)) == text


def test_the_bottleneck_input_names_its_slow_part_and_other_bottlenecks_do_not():
    told = summary.summary(looks(readers=1, batches=9, parse_s=9.8, waited_s=9.0))
    assert stats.line(told).endswith("  input: asc.data.read (readers busy 98 %; more readers= may help)")
    told = summary.summary([look(0.0, trainer="keys"), look(1.0, trainer="keys")])
    assert (told["slow_input"], told["reading"], summary.limit(told)) == (None, None, "key worker")


def test_top_and_status_show_the_readers(monkeypatch):
    seen = looks(readers=2, records=600, bytes=25 * 10**6, skipped=20, read_s=8.0, parse_s=9.0, full_s=6.0,
                 waited_s=2.5)
    parts = {title: rows for title, _, rows in top_screen.screen(seen[-1], seen)}
    assert parts["asc.data.read"] == [["2", "50", "2.5", "2", "60.0 %", "25.0 %", "30.0 %", "25.0 %"]]
    cells = [["2", "4", "600", "25.0", "3", "8.0", "9.0", "6.0", "2.5"]]
    counted = {"readers": 2, "batches": 4, "records": 600, "bytes": 25 * 10**6, "skipped": 3, "read_s": 8.0,
               "parse_s": 9.0, "full_s": 6.0, "waited_s": 2.5}
    assert [rows for title, _, rows in status.tables({**STATUS, "reading": counted}) if title == "asc.data.read"] == [
        cells]
    assert "asc.data.read" not in shown(monkeypatch, STATUS)
