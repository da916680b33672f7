"""The history keeps an hour, of any number of tables, in bounded memory."""
import pytest

from ascpipe.dashboard import history
from ascpipe.dashboard.history import History


def filled(points, tables=("user",)):
    made = History()
    for number in range(points):
        made.add(float(number), "step", {"steps": number}, {name: {"keys": number} for name in tables})
    return made


def test_a_point_has_all_series_and_gaps_where_nothing_is_known():
    made = History()
    made.add(5.0, "disk", {"steps": 2.5, "records": None}, {"user": {"keys": 7}})
    told = made.overview()
    assert told["time"] == [5.0] and told["bottleneck"] == ["disk"]
    assert set(told["series"]) == set(history.OVERVIEW)
    assert told["series"]["steps"] == [2.5]
    assert told["series"]["records"] == told["series"]["ids"] == [None]
    assert made.table("user")["series"] == {"ids": [None], "device_hit_rate": [None], "rows_in": [None], "keys": [7.0]}
    assert made.table("other") is None


def test_the_point_of_an_hour_ago_is_forgotten_in_all_series():
    made = filled(history.POINTS + 3)
    told = made.overview()
    assert len(made) == history.POINTS == history.POINTS * history.TICK_S / 2
    lengths = {len(told["time"]), len(told["bottleneck"]), *map(len, told["series"].values()),
               *map(len, made.table("user")["series"].values())}
    assert lengths == {history.POINTS}
    assert told["time"][0] == told["series"]["steps"][0] == 3.0
    assert made.table("user")["series"]["keys"][-1] == history.POINTS + 2


def test_a_table_that_comes_later_has_gaps_before():
    made = filled(3)
    made.add(3.0, "step", {}, {"user": {"keys": 1}, "late": {"keys": 9}})
    assert made.table("late")["series"]["keys"] == [None, None, None, 9.0]


@pytest.mark.parametrize("still_there", [True, False])
def test_tables_beyond_the_limit_have_a_history_only_when_others_have_gone(still_there):
    names = ["t{}".format(number) for number in range(history.MOST_TABLES)]
    made = filled(2, names)
    made.add(2.0, "", {}, {name: {"keys": 1} for name in [*names[0 if still_there else 1:], "new"]})
    assert (made.table("new") is None) == still_there
    assert (made.table(names[0]) is None) == (not still_there)


def test_ranks_have_series_of_their_own_and_gaps_where_they_are_absent():
    made = filled(2)
    made.add(2.0, "step", {}, {}, {1: {"steps": 5.0}, 0: {"waited": 0.5}})
    made.add(3.0, "step", {}, {}, {0: {"waited": 0.25}})
    told = made.ranks()
    assert told["time"] == [0.0, 1.0, 2.0, 3.0]
    assert told["series"]["steps 1"] == [None, None, 5.0, None]
    assert told["series"]["waited 0"] == [None, None, 0.5, 0.25]
    assert len(told["series"]) == 2 * len(history.OF_RANK)


def test_ranks_beyond_the_limit_have_no_history():
    made = History()
    made.add(0.0, "", {}, {}, {rank: {"steps": 1.0} for rank in range(history.MOST_RANKS + 3)})
    assert len(made.ranks()["series"]) == history.MOST_RANKS * len(history.OF_RANK)
