"""The cells of the heat map: which there are, what they train, how long their turns are."""
import pytest

from bench.cases import cells
from bench.cases.cells import CELLS, DEVICE, HOST, Cell
from bench.usual_model import OURS, Setting
from bench.usual_sides import LEAD


def test_there_is_a_cell_for_each_number_of_tables_rows_dim_and_tier():
    assert len(set(CELLS.values())) == len(CELLS) == 4 * 4 * 3 * 2
    assert CELLS["26x4096-dim-16-host"] == Cell(26, 4096, 16, HOST)
    assert set(cells.CASE.variants) == set(CELLS) == set(cells.CASE.goals)


@pytest.mark.parametrize("cell, setting", [
    (Cell(26, 4096, 16, DEVICE), Setting(OURS, 26, 4096, 16, 100000, 1)),
    (Cell(1, 64, 8, HOST), Setting(OURS, 1, 64, 8, 100000, 10)),
    (Cell(100, 64, 64, HOST), Setting(OURS, 100, 64, 64, 20000, 10))])
def test_a_cell_trains_the_usual_program_with_a_tenth_of_the_rows_on_the_device_if_some_are_at_home(cell, setting):
    assert cells.setting_of(cell) == setting


@pytest.mark.parametrize("step_s, steps", [(1e-3, 200), (.0203, 10), (.5, 8), (1e-6, 1000)])
def test_a_turn_takes_a_fifth_of_a_second_and_has_a_few_steps_at_least(step_s, steps):
    assert cells.steps_of_turn(step_s) == steps


def test_before_a_turn_is_a_lead_no_longer_than_it():
    assert [cells.lead_of_turn(steps) for steps in (8, LEAD, 1000)] == [8, LEAD, LEAD]
