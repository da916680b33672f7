"""Tables of a ring act together, also where they lack something first."""
from ascpipe.kernels.batch_steps import LACKS_VICTIMS
from ascpipe.layout.words import PLANNED, RETIRED, TOUCHED
from ascpipe.workers.ring_scheduler import RingScheduler
from ascpipe.workers.stage import Bells
from ascpipe.workers.train_stage import TrainStage
from tests.support.pipeline_sim import Sim
from tests.support.sim_ring import Home

TABLES = 5


def scheduler_of(sim):
    rung = []
    bells = Bells(lambda: rung.append("trainer"), lambda: rung.append("pump"))
    return RingScheduler(sim.ring, list(sim.trains), list(sim.trains.values()), bells), rung


def words(sim, batch):
    return {sim.word(batch.number, index) for index in range(len(sim.tables))}


def refuse(stage, action, number):
    raise AssertionError("table takes action {} alone".format(action))


def test_all_tables_touch_plan_and_retire_in_one_turn_each_and_ring_once(monkeypatch):
    sim = Sim([8] * TABLES)
    sim.train(*[[1, 2, 3]] * TABLES)  # the first batch finds no room yet
    scheduler, rung = scheduler_of(sim)
    monkeypatch.setattr(TrainStage, "carry_out", refuse)
    batch = sim.submit(*[[2, 3, 3]] * TABLES)
    sim.keys.step()
    assert (scheduler.act(), words(sim, batch), rung) == (TABLES, {TOUCHED}, [])
    assert (scheduler.act(), words(sim, batch), rung) == (TABLES, {PLANNED}, ["trainer"])
    assert all(sim.claim(batch, index) for index in range(TABLES))
    sim.close(batch)
    assert (scheduler.act(), words(sim, batch), rung) == (TABLES, {RETIRED}, ["trainer", "trainer", "pump"])
    assert scheduler.act() == 0
    for index in range(TABLES):
        sim.check(index)


def test_tables_whose_rows_leave_the_device_plan_together_with_the_others(monkeypatch):
    sim = Sim([2, 8], homes=[Home(8), Home()])
    sim.train([1, 2], [1, 2])
    sim.train([3, 4], [3, 4])
    scheduler, rung = scheduler_of(sim)
    monkeypatch.setattr(TrainStage, "carry_out", refuse)
    monkeypatch.setattr(TrainStage, "provide", refuse)
    batch = sim.submit([1, 3], [1, 3])
    sim.keys.step()
    assert (scheduler.act(), words(sim, batch)) == (2, {TOUCHED})
    assert (scheduler.act(), words(sim, batch), rung) == (2, {PLANNED}, ["trainer"])
    assert sim.ring.part(batch.number, 0)["out_count"] == 1
    assert sim.claim(batch, 0) and sim.claim(batch, 1)
    sim.close(batch)
    scheduler.step()
    sim.check(0)
    sim.check(1)


def test_a_table_lacks_its_victim_order_once_and_is_given_it(monkeypatch):
    sim = Sim([2], homes=[Home(8)])
    sim.train([1, 2])
    lacked, provide = [], TrainStage.provide
    monkeypatch.setattr(TrainStage, "provide", lambda stage, lacks, number: (
        lacked.append(lacks), provide(stage, lacks, number))[1])
    sim.train([3])
    sim.train([4])
    assert lacked.count(LACKS_VICTIMS) == 1
    sim.check(0)
