"""Tables of a ring take turns: together where they can, alone where they must."""
from ascpipe.layout.words import PLANNED, RETIRED, TOUCHED
from ascpipe.tables import state
from ascpipe.workers.cuts import Bells
from ascpipe.workers.train_stage import TrainStage
from ascpipe.workers.turns import Turns
from tests.support.pipeline_sim import Sim
from tests.support.sim_ring import Home

TABLES = 5


def turns_of(sim):
    rung = []
    bells = Bells(lambda: rung.append("trainer"), lambda: rung.append("pump"))
    return Turns(sim.ring, list(sim.stages), list(sim.stages.values()), bells), rung


def words(sim, batch):
    return {sim.word(batch.number, index) for index in range(len(sim.tables))}


def refuse(stage, action, number):
    raise AssertionError("table takes action {} alone".format(action))


def test_all_tables_touch_plan_and_retire_in_one_turn_each_and_ring_once(monkeypatch):
    sim = Sim([8] * TABLES)
    sim.train(*[[1, 2, 3]] * TABLES)  # the first batch finds no room yet
    turns, rung = turns_of(sim)
    monkeypatch.setattr(TrainStage, "carry_out", refuse)
    batch = sim.submit(*[[2, 3, 3]] * TABLES)
    sim.keys.step()
    assert (turns.turn(), words(sim, batch), rung) == (TABLES, {TOUCHED}, [])
    assert (turns.turn(), words(sim, batch), rung) == (TABLES, {PLANNED}, ["trainer"])
    assert all(sim.claim(batch, index) for index in range(TABLES))
    sim.close(batch)
    assert (turns.turn(), words(sim, batch), rung) == (TABLES, {RETIRED}, ["trainer", "trainer", "pump"])
    assert turns.turn() == 0
    for index in range(TABLES):
        sim.check(index)


def test_a_table_whose_rows_leave_the_device_plans_alone_and_the_others_together(monkeypatch):
    sim = Sim([2, 8], homes=[Home(8), Home()])
    sim.train([1, 2], [1, 2])
    sim.train([3, 4], [3, 4])
    assert [int(stage.state[state.HAS_VICTIMS]) for stage in sim.stages.values()] == [1, 0]
    turns, _ = turns_of(sim)
    alone, carry_out = [], TrainStage.carry_out
    monkeypatch.setattr(TrainStage, "carry_out", lambda stage, action, number: (
        alone.append((stage is sim.stages[0], sim.word(number, 0))), carry_out(stage, action, number))[1])
    batch = sim.submit([1, 3], [1, 3])
    sim.keys.step()
    turns.step()
    assert (words(sim, batch), alone) == ({PLANNED}, [(True, TOUCHED)])
    assert sim.claim(batch, 0) and sim.claim(batch, 1)
    sim.close(batch)
    turns.step()
    sim.check(0)
    sim.check(1)
