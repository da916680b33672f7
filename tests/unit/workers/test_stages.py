"""The stages of the workers over a simulated ring: contracts under any order of events."""
import random

import numpy as np
import pytest

from ascpipe.kernels import ring_scan
from ascpipe.layout import structs
from ascpipe.layout.bells import ASLEEP, PAUSING
from ascpipe.layout.words import DEDUPED, PLAN_TABLE_FULL, PLANNED, RETIRED, SUBMITTED, TOUCHED
from ascpipe.shm.bell import Bell
from ascpipe.workers import key_worker
from ascpipe.workers.key_worker import KeyStage
from ascpipe.workers.listeners import Listeners
from ascpipe.workers.pace import Pace
from tests.support.pipeline_sim import Sim
from tests.support.sim_choices import any_tables, ask_any_cut
from tests.support.sim_ring import Home, PlanError
from tests.unit.workers.refusals import refusal


def test_one_batch_gets_rows_and_is_retired():
    sim = Sim([8])
    sim.train([5, 7, 5])
    assert sim.trained_state(0) == {5: (2, 0), 7: (1, 1)}
    sim.check(0)


def test_known_keys_keep_their_slots_and_new_ones_get_the_lowest_free():
    sim = Sim([8])
    sim.train([5, 7])
    sim.train([7, 9])
    assert sim.trained_state(0) == {5: (1, 0), 7: (2, 1), 9: (1, 2)}


def test_a_batch_that_nobody_trains_leaves_no_trace():
    sim = Sim([8])
    batch = sim.submit([1, 2])
    sim.work()
    assert sim.word(batch.number, 0) == PLANNED
    sim.close(batch)
    sim.work()
    assert sim.word(batch.number, 0) == RETIRED
    sim.train([3])
    assert sim.trained_state(0) == {3: (1, 0)}
    sim.check(0)


def test_a_table_that_a_step_does_not_fetch_counts_its_known_keys_only():
    sim = Sim([8, 8])
    sim.train([1, 2], [1, 2])
    batch = sim.submit([1, 3], [1, 3])
    sim.work()
    assert sim.claim(batch, 0)
    sim.close(batch)
    sim.work()
    assert sim.trained_state(1) == {1: (2, 0), 2: (1, 1)}
    sim.train([3], [3])
    for index in range(2):
        sim.check(index)


def test_a_plan_that_stood_upon_a_dropped_batch_is_made_again():
    sim = Sim([8])
    first, second = sim.submit([1]), sim.submit([2])
    sim.work()
    sim.close(first)
    assert not sim.claim(second, 0)  # it stands upon the first
    sim.work()
    assert sim.claim(second, 0)
    sim.close(second)
    sim.work()
    assert sim.trained_state(0) == {2: (1, 0)}


def test_a_full_table_says_how_many_rows_are_needed_and_loses_nothing():
    sim = Sim([2])
    sim.train([1, 2])
    assert refusal(sim, [2, 3, 4]) == (PLAN_TABLE_FULL, 4)
    sim.train([1])
    assert sim.trained_state(0) == {1: (2, 0), 2: (1, 1)}
    sim.check(0)


def test_a_batch_with_more_new_keys_than_entries_waits_and_then_says_that_the_table_is_full():
    sim = Sim([4], capacity=6)
    first, second = sim.submit([1, 2, 3]), sim.submit([4, 5, 6, 7])
    sim.work()
    assert sim.word(second.number, 0) < TOUCHED
    assert sim.claim(first, 0)
    sim.close(first)
    sim.work()
    with pytest.raises(PlanError) as full:
        sim.claim(second, 0)
    assert full.value.need == 7
    sim.close(second)
    sim.train([3, 8])
    sim.check(0)


def test_a_reset_forgets_every_key_and_touches_the_window_again():
    sim = Sim([4])
    sim.train([1, 2])
    ahead = sim.submit([2, 3])
    sim.work()
    sim.ask_reset(0)
    sim.work()
    assert sim.cut_is_applied(0)
    assert sim.trained_state(0) == {}
    assert sim.claim(ahead, 0)
    sim.close(ahead)
    sim.work()
    assert sim.trained_state(0) == {2: (1, 0), 3: (1, 1)}


def test_plans_stop_at_the_plan_ahead_limit():
    sim = Sim([8], plan_ahead=2)
    batches = [sim.submit([key]) for key in range(4)]
    sim.work()
    assert [sim.word(batch.number, 0) for batch in batches] == [PLANNED, PLANNED, TOUCHED, TOUCHED]


def test_an_empty_batch_passes_through():
    sim = Sim([4])
    sim.train([])
    sim.train([1])
    assert sim.trained_state(0) == {1: (1, 0)}


def test_a_dropped_frame_is_not_acknowledged_before_the_key_worker_is_through_with_it():
    sim = Sim([8])
    batch = sim.submit([1])
    sim.close(batch)
    assert sim.stages[0].step() == 0
    assert sim.word(batch.number, 0) == SUBMITTED
    sim.work()
    assert sim.word(batch.number, 0) == RETIRED


def test_a_killed_key_workers_frame_is_deduped_by_another_one_after_the_reap():
    sim = Sim([8, 8])
    batch = sim.submit([1, 1, 2], [3])
    sim.pump.frame(batch.number)["claim"] = 9  # killed after its claim
    other = KeyStage(sim.ring, 10, Listeners([], []), sim.next_spread())
    assert other.step() == 0
    sim.pump.clear_claims(9)
    assert other.step() == 1
    assert [sim.word(batch.number, index) for index in range(2)] == [DEDUPED, DEDUPED]
    sim.work()
    for index in range(2):
        assert sim.claim(batch, index)
    sim.close(batch)
    sim.work()
    assert sim.trained_state(0) == {1: (2, 0), 2: (1, 1)}


def test_another_key_worker_leaves_alone_what_was_published_before_the_kill():
    sim = Sim([8, 8])
    batch = sim.submit([1, 1, 2], [3])
    other = KeyStage(sim.ring, 10, Listeners([], []), sim.next_spread())
    other.step()
    part = sim.ring.part(batch.number, 0)
    part.array("unique", 2)[:] = (50, 60)  # would be written again
    sim.ring.store_word(batch.number, 1, SUBMITTED)
    sim.pump.clear_claims(10)
    assert KeyStage(sim.ring, 11, Listeners([], []), sim.next_spread()).step() == 1
    assert part.array("unique", 2).tolist() == [50, 60]
    assert sim.word(batch.number, 1) == DEDUPED


def test_a_key_worker_that_is_killed_while_it_enlarges_its_scratch_leaves_its_frame_to_another_one(monkeypatch):
    sim = Sim([8])
    batch = sim.submit(list(range(6)))

    def no_memory(n, ranks):
        raise MemoryError

    monkeypatch.setattr(key_worker, "cells_to_deal", no_memory)
    with pytest.raises(MemoryError):
        sim.keys.step()
    monkeypatch.undo()
    assert (sim.word(batch.number, 0), sim.pump.frame(batch.number)["claim"]) == (SUBMITTED, 7)
    sim.pump.clear_claims(7)
    assert KeyStage(sim.ring, 10, Listeners([], []), sim.next_spread()).step() == 1
    assert sim.word(batch.number, 0) == DEDUPED


def test_a_step_of_a_key_worker_deduplicates_frame_after_frame_enlarges_its_scratch_and_rings(monkeypatch):
    monkeypatch.setattr(key_worker, "dedup_frames", ring_scan.dedup_frames)
    sim, session, rung = Sim([8], frames=8), np.zeros(structs.SESSION_BYTES, np.uint8), []
    bells = [Bell(session, structs.BELL_TABLE_WORKERS + number) for number in range(2)]
    monkeypatch.setattr(Bell, "_wake", lambda bell: rung.append(bells.index(bell)))
    bells[0]._fields["waiting"], bells[1]._fields["waiting"] = ASLEEP, PAUSING
    keys = KeyStage(sim.ring, 8, Listeners([], bells), sim.next_spread())
    batches = [sim.submit([key] * n + list(range(n))) for key, n in enumerate([1, 30, 2, 200])]
    assert keys.step() == 4
    assert [sim.word(batch.number, 0) for batch in batches] == [DEDUPED] * 4
    assert (rung, keys.step()) == ([0] * 4, 0)
    monkeypatch.setattr(key_worker, "_MOST_FRAMES", 2)
    for key in range(3):
        sim.submit([key])
    assert [keys.step() for _ in range(3)] == [2, 1, 0]


def test_a_key_worker_pauses_by_the_batches_for_which_a_plan_can_be_made(monkeypatch):
    monkeypatch.setattr(Pace, "pause_s", lambda _pace, ahead: ahead)
    sim = Sim([8], frames=8, look_ahead=3)
    keys = KeyStage(sim.ring, 8, Listeners([], []), sim.next_spread())
    for key in range(7):
        sim.submit([key])
    assert keys.pause_s() == 4


def put_aside(sim, batch, index):
    """As a step does before all ranks have the batch."""
    sim.ring.store_word(batch.number, index, PLANNED)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("then", ["claims_again", "drops_it", "cuts"])
def test_a_claim_that_is_put_aside_is_as_if_it_had_not_been_made(then, restarts):
    sim = Sim([2], homes=[Home(40)], frames=8, plan_ahead=3)
    first, second, third = (sim.submit([key, key + 1]) for key in (1, 2, 3))
    sim.work()
    assert sim.take(first, 0)
    if restarts:
        sim.kill(0)
    sim.work()
    put_aside(sim, first, 0)
    if restarts:
        sim.kill(0)
    sim.work()
    if then == "cuts":
        sim.ask_reset(0)
        sim.work()
    batches = [first, second, third]
    if then == "drops_it":
        sim.close(batches.pop(0))
    for batch in batches:
        sim.work()
        assert sim.claim(batch, 0)
        sim.close(batch)
    sim.work()
    sim.check(0)


def test_a_claim_that_is_put_aside_while_a_worker_takes_over_is_a_plan_of_its_predecessor(monkeypatch):
    sim = Sim([2], homes=[Home(40)], frames=8, plan_ahead=3)
    first, second, third = (sim.submit([key, key + 1]) for key in (1, 2, 3))
    sim.work()
    assert sim.take(first, 0)
    look, looks = sim.ring.look, []

    def look_and_act(column):
        looks.append(column)
        if len(looks) == 2:  # the plans were revoked, and what is left is to be learned
            put_aside(sim, first, 0)
        return look(column)

    monkeypatch.setattr(sim.ring, "look", look_and_act)
    sim.kill(0)
    monkeypatch.undo()
    assert len(looks) >= 2
    for batch in (first, second, third):
        sim.work()
        assert sim.claim(batch, 0)
        sim.close(batch)
    sim.work()
    sim.check(0)


@pytest.mark.parametrize("seed, asides", [
    *((seed, asides) for asides in (0, 1) for seed in range(15)),
    *(pytest.param(seed, asides, marks=pytest.mark.long_once_more)
      for asides, seeds in enumerate((60, 30)) for seed in range(15, seeds))])
def test_any_order_of_events_and_kills_ends_in_the_oracles_state(seed, asides):
    rng = random.Random(seed)
    tables = rng.choice([1, 2, 3])
    sim = Sim(**any_tables(rng, tables, 6, 25), capacity=40, frames=rng.choice([1, 2, 3, 8]),
              plan_ahead=rng.choice([1, 2]), look_ahead=rng.choice([0, 1, 32]), arena_bytes=rng.choice([8192, 1 << 16]))
    wanted = {}  # batch -> tables that its step still has to claim

    def submit():
        keys = [[rng.randrange(25) for _ in range(rng.randrange(7))] for _ in range(tables)]
        batch = sim.submit(*keys, timestamp=rng.choice([0, sim.pump.next_ticket // 2]))
        if batch is not None:
            wanted[batch] = set(rng.choice([range(tables), range(1), ()]))

    def step():
        if any(load.advance() for load in sim.loads.values()) or not sim.open or not all(
                sim.cut_is_applied(index) for index in range(tables)):
            return
        batch = sim.open[0] if rng.random() < 0.8 else rng.choice(sim.open)
        if wanted[batch] and rng.random() < 0.95:
            index = rng.choice(sorted(wanted[batch]))
            if sim.claim(batch, index):
                wanted[batch].discard(index)
        elif batch is sim.open[0] or not sim.ring.frames[batch.number % structs.MAX_FRAMES]["trained"]:
            sim.close(batch)

    def claim_and_put_aside():
        if any(load.advance() for load in sim.loads.values()) or not sim.open or not all(
                sim.cut_is_applied(index) for index in range(tables)):
            return
        batch = sim.open[0]
        taken = [] if sim.ring.frames[batch.number % structs.MAX_FRAMES]["trained"] else [
            index for index in sorted(wanted[batch]) if sim.take(batch, index)]
        for _ in range(rng.randrange(8)):
            rng.choices([submit, one_worker, one_action, kill], [3, 4, 6, 0.4])[0]()
        for index in taken:
            put_aside(sim, batch, index)

    def one_worker():
        rng.choice([sim.keys, *sim.stages.values()]).step()

    def one_action():
        rng.choice(sim.stages).act()

    def kill():
        sim.kill(rng.randrange(tables))

    def cut():
        ask_any_cut(sim, rng.randrange(tables), rng, 25)

    def evaluate():
        if not all(sim.cut_is_applied(index) for index in range(tables)):
            return
        keys = [rng.randrange(25) for _ in range(5)]
        for index, answers in enumerate(sim.evaluate(*[keys] * tables)):
            sim.check_answers(index, answers)

    for _ in range(600):
        rng.choices([submit, step, one_worker, one_action, kill, evaluate, cut, claim_and_put_aside],
                    [3, 4, 4, 6, 0.4, 0.2, 0.2, asides])[0]()
    for _ in range(1000):
        if not sim.open:
            break
        sim.work()
        batch = sim.open[0]
        if all(sim.claim(batch, index) for index in sorted(wanted[batch])
               if sim.word(batch.number, index) <= PLANNED):
            sim.close(batch)
    sim.work()
    sim.pump.free_frames()
    assert not sim.open
    assert sim.ring.header["head"] == sim.ring.header["tail"]
    for index in range(tables):
        sim.check(index)
