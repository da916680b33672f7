"""Advice of `ascpipe tune`: figures of a run decide what is recommended, and how much it may gain."""
import pytest

from ascpipe.report.advice import advice_of

TABLE = {"name": "user", "rows": 5000, "device_rows": 1000, "home_rows": 20000, "row_bytes": 64,
         "device_hit_rate": 0.8, "loads": 4000}
FIGURES = {"bottlenecks": {"step": 1.0}, "tables": [TABLE], "reading": None, "workers": 1, "table_workers": 1,
           "cores": 8}
READING = {"readers": 2, "busy": 0.9, "full": 0.0}


def advice(**changed):
    return advice_of({**FIGURES, **changed})


def test_a_run_whose_steps_do_not_wait_needs_no_change():
    assert advice() == []


def test_a_full_device_that_steps_wait_for_should_be_larger():
    (one,) = advice(bottlenecks={"step": 0.75, "disk": 0.25})
    assert "device_vocabulary_size of 'user' from 1,000 to up to 5,000, which takes 0.3 MB" in one.change
    assert "80.0 %" in one.reason and one.gain == pytest.approx(1 / 0.75 - 1)


def test_the_gain_is_divided_among_tables_by_the_rows_that_they_swap_in():
    other = {**TABLE, "name": "item", "loads": 12000}
    first, second = advice(bottlenecks={"disk": 0.4, "step": 0.6}, tables=[TABLE, other])
    assert "'item'" in first.change and first.gain == pytest.approx(1 / 0.7 - 1)
    assert "'user'" in second.change and second.gain == pytest.approx(1 / 0.9 - 1)


def test_a_device_that_is_never_full_should_be_smaller_and_gains_no_speed():
    (one,) = advice(tables=[{**TABLE, "device_rows": 1000000}])
    assert "from 1,000,000 to 6,250, which saves 63.6 MB" in one.change and one.gain == 0.0


def test_a_small_saving_is_not_recommended():
    assert advice(tables=[{**TABLE, "rows": 10, "device_rows": 1000}]) == []


@pytest.mark.parametrize("name, setting", [("key worker", "workers"), ("table worker", "table_workers")])
def test_a_worker_that_steps_wait_for_should_not_be_alone(name, setting):
    tables = [{**TABLE, "loads": 0}, {**TABLE, "name": "item", "loads": 0}]
    (one,) = advice(bottlenecks={"step": 0.5, name: 0.5}, tables=tables)
    assert one.change == "Set {} to 2".format(setting) and one.gain == pytest.approx(1 / 0.75 - 1)
    assert advice(bottlenecks={"step": 0.5, name: 0.5}, tables=tables, cores=2) == []
    assert advice(bottlenecks={"step": 0.95, name: 0.05}, tables=tables) == []


def test_one_table_does_not_need_two_table_workers():
    assert advice(bottlenecks={"table worker": 0.5, "step": 0.5}, tables=[{**TABLE, "loads": 0}]) == []


@pytest.mark.parametrize("reading, words", [
    (None, "asc.data.read"), (READING, "Increase readers= of asc.data.read from 2"),
    ({**READING, "busy": 0.2, "full": 0.7}, "Speed up the stages after asc.data.read"),
    ({**READING, "busy": 0.2}, "Increase read_ahead=")])
def test_a_slow_input_names_its_slow_part(reading, words):
    (one,) = advice(bottlenecks={"input": 0.5, "step": 0.5}, reading=reading)
    assert words in one.change and "50 %" in one.reason and one.gain == pytest.approx(1.0)


def test_the_largest_gain_is_first_and_is_limited():
    found = advice(bottlenecks={"input": 1.0, "peer": 0.2})
    assert [round(one.gain, 2) for one in found] == [9.0, 0.25]
