"""Advice of `ascpipe tune` and of the dashboard: figures decide what is recommended, and how much it may gain."""
import pytest

from ascpipe.figures.advice import advice_of, gain_text, speed_advice

TABLE = {"name": "user", "rows": 5000, "device_rows": 1000, "home_rows": 20000, "disk_slots": 0, "row_bytes": 64,
         "device_hit_rate": 0.8, "loads": 4000, "fetches": 0, "save_waits": 0}
#: device_vocabulary_size 4000, host_vocabulary_size 6000, ssd_vocabulary_size 14000
ON_DISK = {**TABLE, "rows": 10712, "device_rows": 4000, "home_rows": 10000, "disk_slots": 20000, "row_bytes": 128,
           "fetches": 300}
FIGURES = {"bottlenecks": {"step": 1.0}, "tables": [TABLE], "reading": None, "workers": 1, "table_workers": 1,
           "cores": 8}
READING = {"readers": 2, "busy": 0.9, "full": 0.0}


def advice(**changed):
    return advice_of({**FIGURES, **changed})


def test_a_run_whose_steps_do_not_wait_needs_no_change():
    assert advice() == []


def test_a_full_device_that_steps_wait_for_should_be_larger():
    (one,) = advice(bottlenecks={"step": 0.75, "table worker": 0.25})
    assert "device_vocabulary_size of 'user' from 1,000 to up to 5,000, which takes 0.3 MB" in one.change
    assert "80.0 %" in one.reason and one.gain == pytest.approx(1 / 0.75 - 1)


def test_the_gain_is_divided_among_tables_by_the_rows_that_they_swap_in():
    other = {**TABLE, "name": "item", "loads": 12000}
    first, second = advice(bottlenecks={"table worker": 0.4, "step": 0.6}, tables=[TABLE, other], table_workers=2)
    assert "'item'" in first.change and first.gain == pytest.approx(1 / 0.7 - 1)
    assert "'user'" in second.change and second.gain == pytest.approx(1 / 0.9 - 1)


def test_more_device_rows_are_at_most_the_host_rows():
    (one,) = advice(bottlenecks={"table worker": 0.4}, tables=[ON_DISK])
    assert "from 4,000 to up to 6,000, the value of host_vocabulary_size; to exceed it, increase both" in one.change
    assert advice(bottlenecks={"table worker": 0.4}, tables=[{**ON_DISK, "home_rows": 8000}]) == []


def test_steps_that_wait_for_disks_need_more_host_rows_or_faster_disks():
    rows, disks = advice(bottlenecks={"disk": 0.4, "step": 0.6}, tables=[ON_DISK])
    assert "Increase host_vocabulary_size of 'user' from 6,000 to up to 6,712, which takes 0.1 MB" in rows.change
    assert "40 %" in rows.reason and "300 rows were read" in rows.reason and rows.gain == pytest.approx(1 / 0.6 - 1)
    assert disks.change.startswith("Use faster disks") and gain_text(disks) == "The gain is not known."
    (one,) = advice(bottlenecks={"disk": 0.4, "step": 0.6}, tables=[{**ON_DISK, "rows": 9000}])
    assert one.change.startswith("Use faster disks")


def test_steps_that_wait_for_a_save_need_a_larger_log():
    (one,) = advice(bottlenecks={"disk": 0.4, "step": 0.6}, tables=[{**TABLE, "save_waits": 2}])
    assert one.change.startswith("Increase save_log_bytes") and "waited 2 times" in one.reason


@pytest.mark.parametrize("changed, setting", [
    ({}, "host_vocabulary_size"), ({"home_rows": 0}, "device_vocabulary_size"),
    ({"disk_slots": 60000}, "ssd_vocabulary_size")])
def test_a_table_that_is_nearly_full_names_the_setting_of_its_last_tier(changed, setting):
    table = {**TABLE, **changed, "loads": 0}
    limit = table["disk_slots"] or table["home_rows"] or table["device_rows"]
    assert advice(tables=[{**table, "rows": int(0.89 * limit)}]) == []
    (one,) = advice(tables=[{**table, "rows": int(0.95 * limit)}])
    assert "Increase {} of 'user'".format(setting) in one.change and "{:,} rows".format(limit) in one.reason


def test_a_device_with_few_hits_should_be_larger_also_if_steps_do_not_wait():
    (one,) = advice(tables=[{**TABLE, "device_hit_rate": 0.3}])
    assert "device_vocabulary_size" in one.change and one.gain is None


def test_a_run_that_continues_is_not_told_to_use_less_memory():
    assert speed_advice({**FIGURES, "tables": [{**TABLE, "device_rows": 1000000}]}) == []


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
    (one,) = advice(bottlenecks={"step": 0.5, name: 0.5}, tables=tables, cores=2)
    assert one.change == "Let the daemon use more than 2 cores, and set {} to 2".format(setting)
    assert one.setting is None  # `--try` cannot add cores
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
