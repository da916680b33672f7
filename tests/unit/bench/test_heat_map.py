"""The heat map has each cell in its place, and says which fall short."""
import pytest

from bench import __main__ as command
from bench import heat_map, records
from bench.cases.cells import CELLS, ROWS, TABLES
from bench.heat_map import Heat
from bench.usual_model import PLAIN
from bench.usual_sides import NAMES


def cell(variant, ratio, ours=.002, case="cells"):
    return dict(dict.fromkeys(records.FIELDS), case=case, params={"variant": variant, "contender": "ascpipe"},
                unit="s per step", ours=ours, peers={NAMES[PLAIN]: ours * ratio}, ratio={NAMES[PLAIN]: ratio}, notes={},
                goal=[{"measure": "ratio", "peer": NAMES[PLAIN], "limit": 1, "reached": ratio, "met": ratio >= 1}],
                machine={"processor": "one", "cores": 2}, spread={"ascpipe": [ours, ours]}, command="bench",
                date="today", commit="c0ffee")


SOME = [cell("1x64-dim-8-device", .5), cell("100x4096-dim-8-host", 1.75), cell("26x256-dim-64-device", 1.25)]
OTHER = cell("26x4096", 1.5, case="usual")


def test_cells_stand_by_tables_and_rows_in_a_panel_for_each_dim_and_tier_that_was_measured():
    found = heat_map.panels([*SOME, OTHER])
    assert [(panel.dim, panel.tier) for panel in found] == [(8, "device"), (8, "host"), (64, "device"), (64, "host")]
    at = {(panel.dim, panel.tier, TABLES[down], ROWS[across]): heat for panel in found
          for down, row in enumerate(panel.heats) for across, heat in enumerate(row) if heat is not None}
    assert at == {(8, "device", 1, 64): Heat(.5, .002, True), (8, "host", 100, 4096): Heat(1.75, .002, False),
                  (64, "device", 26, 256): Heat(1.25, .002, False)}


def test_a_document_gets_a_table_for_each_dim_with_those_that_fall_short_in_bold():
    lines = heat_map.markdown(SOME)
    assert lines[0] == ("Plain TensorFlow's time as a multiple of ours. 2 of 3 cells are at 1 or "
                        "more; the least is 0.50, `1x64-dim-8-device`. 93 were not measured.")
    tables = [line for line in lines if line.startswith("| ")]
    assert tables[0] == ("| tables | device, 64 | device, 256 | device, 1,024 | device, 4,096 "
                         "| host, 64 | host, 256 | host, 1,024 | host, 4,096 |")
    assert tables[1] == "| 1 | **0.50** |" + "  |" * 7
    assert tables[4] == "| 100 |" + "  |" * 7 + " 1.75 |"
    assert tables[8] == "| 26 |  | 1.25 |" + "  |" * 6
    assert len({line.count("|") for line in tables}) == 1


def test_of_all_cells_none_is_said_to_be_missing():
    summary, *_ = heat_map.markdown([cell(variant, 2) for variant in CELLS])
    assert summary.endswith("96 of 96 cells are at 1 or more; the least is 2.00, `1x64-dim-8-device`.")


@pytest.mark.parametrize("heat, warmth", [
    (None, 0), (Heat(1, 1, False), 0), (Heat(2, 1, False), 1), (Heat(.5, 1, True), -1), (Heat(9, 1, False), 1),
    (Heat(2 ** .5, 1, False), .5)])
def test_equal_factors_are_equally_far_from_as_fast(heat, warmth):
    assert heat_map.warmth(heat) == pytest.approx(warmth)


def test_in_a_document_the_heat_map_stands_in_place_of_the_rows_of_its_cells():
    lines = command.document([OTHER, *SOME])
    assert lines[0] == "`bench`, today, commit c0ffee, one, 2 cores."
    assert sum("usual/26x4096" in line for line in lines) == 1
    assert not [line for line in lines if "cells/" in line]
    assert lines[-len(heat_map.markdown(SOME)):] == heat_map.markdown(SOME)
    assert command.document(SOME) == [lines[0], "", *heat_map.markdown(SOME)]
    assert command.document([OTHER]) == records.markdown([OTHER])
