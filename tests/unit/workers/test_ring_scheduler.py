"""Tables of a ring act together, also where they lack something first; the compiled loop goes on by itself."""
import numpy as np
import pytest

from ascpipe.kernels import ring_rounds
from ascpipe.kernels.asks import LACKS_IMAGES, LACKS_VICTIMS
from ascpipe.layout import structs
from ascpipe.layout.bells import ASLEEP, AWAKE, PAUSING
from ascpipe.layout.words import DONE, PLANNED, RETIRED, TOUCHED
from ascpipe.shm.bell import Bell
from ascpipe.workers import ring_scheduler
from ascpipe.workers.listeners import Listeners
from ascpipe.workers.ring_scheduler import RingScheduler
from ascpipe.workers.train_stage import TrainStage
from tests.support.pipeline_sim import Sim
from tests.support.sim_ring import Home

TABLES = 5


@pytest.fixture
def compiled(monkeypatch):
    """The loop as a worker has it; else tests take its steps one by one."""
    monkeypatch.setattr(ring_scheduler, "run_tables", ring_rounds.run_tables)


def scheduler_of(sim, monkeypatch, trainer=ASLEEP, pump=ASLEEP):
    """(scheduler, what was rung, bells by name); the owners are in these states."""
    session, rung = np.zeros(structs.SESSION_BYTES, np.uint8), []
    bells = {"trainer": Bell(session, structs.BELL_TRAINER), "pump": Bell(session, structs.BELL_PUMP)}
    bells["trainer"]._fields["waiting"], bells["pump"]._fields["waiting"] = trainer, pump
    names = {id(bell): name for name, bell in bells.items()}
    monkeypatch.setattr(Bell, "_wake", lambda bell: rung.append(names[id(bell)]))
    listeners = Listeners([bells["trainer"]], [bells["pump"]])
    return RingScheduler(sim.ring, list(sim.trains), list(sim.trains.values()), listeners), rung, bells


def words(sim, batch):
    return {sim.word(batch.number, index) for index in range(len(sim.tables))}


def dedup(sim):
    while sim.keys.step():
        pass


def refuse(stage, action, number):
    raise AssertionError("table takes action {} alone".format(action))


def test_all_tables_touch_plan_and_retire_in_one_turn_each_and_ring_once(monkeypatch):
    sim = Sim([8] * TABLES)
    sim.train(*[[1, 2, 3]] * TABLES)  # the first batch finds no room yet
    scheduler, rung, _ = scheduler_of(sim, monkeypatch)
    monkeypatch.setattr(TrainStage, "carry_out", refuse)
    batch = sim.submit(*[[2, 3, 3]] * TABLES)
    dedup(sim)
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
    scheduler, rung, _ = scheduler_of(sim, monkeypatch)
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


# ---- the compiled loop

def counted_calls(monkeypatch):
    calls, run = [], ring_scheduler.run_tables

    def call(*args):
        calls.append(run(*args))
        return calls[-1]

    monkeypatch.setattr(ring_scheduler, "run_tables", call)
    return calls


def test_one_call_retires_plans_and_touches_several_batches(compiled, monkeypatch):
    sim = Sim([8] * TABLES, plan_ahead=3, frames=8)
    sim.train(*[[1, 2, 3]] * TABLES)
    scheduler, rung, _ = scheduler_of(sim, monkeypatch, trainer=AWAKE, pump=AWAKE)
    calls = counted_calls(monkeypatch)
    batches = [sim.submit(*[[number, 3]] * TABLES) for number in range(4)]
    dedup(sim)
    assert scheduler.step() == (4 + 3) * TABLES
    assert [words(sim, batch) for batch in batches] == [{PLANNED}] * 3 + [{TOUCHED}]
    for batch in batches[:2]:
        assert all(sim.claim(batch, index) for index in range(TABLES))
        sim.close(batch)
    assert scheduler.step() == (2 + 1) * TABLES
    assert [words(sim, batch) for batch in batches] == [{RETIRED}] * 2 + [{PLANNED}] * 2
    assert (len(calls), rung, scheduler.step()) == (2, [], 0)


@pytest.mark.parametrize("trainer, pump, expected", [
    (AWAKE, AWAKE, []), (AWAKE, PAUSING, []), (AWAKE, ASLEEP, ["pump"]), (PAUSING, AWAKE, ["trainer"]),
    (ASLEEP, ASLEEP, ["trainer", "pump"])])
def test_a_retired_frame_rings_those_whose_owners_wait(compiled, monkeypatch, trainer, pump, expected):
    sim = Sim([8])
    batch = sim.submit([1])
    sim.work()
    assert sim.claim(batch, 0)
    sim.close(batch)
    scheduler, rung, _ = scheduler_of(sim, monkeypatch, trainer, pump)
    assert (scheduler.step(), rung) == (1, expected)


def test_the_loop_returns_to_ring_before_it_goes_on_with_the_next_batch(compiled, monkeypatch):
    sim = Sim([8], plan_ahead=2)
    first, second = sim.submit([1]), sim.submit([2])
    scheduler, rung, bells = scheduler_of(sim, monkeypatch)
    seen = []

    def ring(bell):
        rung.append(bell)
        seen.append([sim.word(batch.number, 0) for batch in (first, second)])
        bells["trainer"]._fields["waiting"] = AWAKE  # it has woken up

    monkeypatch.setattr(Bell, "_wake", ring)
    dedup(sim)
    scheduler.step()
    assert seen == [[PLANNED, TOUCHED]]
    assert words(sim, second) == {PLANNED}
    bells["trainer"]._fields["waiting"] = ASLEEP
    sim.claim(first, 0)
    sim.close(first)
    scheduler.step()
    assert [bell is bells["trainer"] for bell in rung] == [True, True, False]


def test_a_table_that_waits_neither_stops_the_others_nor_keeps_the_loop_going(compiled, monkeypatch):
    """The first table has a batch to retire, and no room for the images that a snapshot needs."""
    sim = Sim([8, 8], log_capacity=1, frames=8)
    sim.train([1, 2, 3], [1, 2, 3])
    scheduler, _, _ = scheduler_of(sim, monkeypatch, trainer=AWAKE)
    first, second = sim.submit([1, 2, 3], [1, 2]), sim.submit([1], [3])
    dedup(sim)
    scheduler.step()
    snapshot = sim.begin_snapshot(0)
    assert sim.claim(first, 0) and sim.claim(first, 1)
    sim.close(first)
    lacked, provide = [], TrainStage.provide
    monkeypatch.setattr(TrainStage, "provide", lambda stage, lacks, number: (
        lacked.append(lacks), provide(stage, lacks, number))[1])
    assert scheduler.step() == 1  # the second table retires
    assert [sim.word(first.number, index) for index in range(2)] == [DONE, RETIRED]
    assert lacked == [LACKS_IMAGES] * 2  # in the round of the other table, and in the last one
    assert (scheduler.step(), lacked) == (0, [LACKS_IMAGES] * 3)
    assert sim.claim(second, 1)
    assert scheduler.step() == 1
    while snapshot.advance():
        pass
    assert scheduler.step() >= 1
    assert [sim.word(first.number, index) for index in range(2)] == [RETIRED, RETIRED]


def test_a_step_has_an_end_however_much_there_is_to_do(compiled, monkeypatch):
    monkeypatch.setattr(ring_scheduler, "_MOST_ROUNDS", 3)
    sim = Sim([8], frames=8)
    batches = [sim.submit([number]) for number in range(6)]
    scheduler, _, _ = scheduler_of(sim, monkeypatch)
    dedup(sim)
    assert [scheduler.step() for _ in range(4)] == [3, 3, 2, 0]
    assert [sim.word(batch.number, 0) for batch in batches] == [PLANNED] * 2 + [TOUCHED] * 4


def test_a_rare_action_is_carried_out_between_two_rounds(compiled, monkeypatch):
    sim = Sim([8, 8])
    scheduler, _, _ = scheduler_of(sim, monkeypatch)
    batch = sim.submit([1], [1])
    dedup(sim)
    scheduler.step()
    sim.ask_reset(1)
    assert scheduler.step() > 0
    assert sim.cut_is_applied(1)
    assert words(sim, batch) == {PLANNED}
    assert sim.claim(batch, 1)
