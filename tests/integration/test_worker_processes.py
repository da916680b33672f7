"""Key and table workers as processes: the same contracts as in ``tests/unit/workers``."""
import random
import time

import pytest

from ascpipe.layout.words import DEDUPED, DONE, LOCAL
from ascpipe.shm.bell import SLICE_S
from tests.support.waiting import wait_until
from tests.support.worker_processes import KEY, TABLE, ProcessSim


@pytest.mark.parametrize(("key_workers", "table_workers"), [(1, 1), (3, 2)])
def test_batches_pass_through_the_workers_in_order(key_workers, table_workers):
    rng = random.Random(5)
    with ProcessSim([200, 200, 200], key_workers, table_workers, capacity=300) as sim:
        for _ in range(60):
            sim.train(*[[rng.randrange(150) for _ in range(20)] for _ in sim.tables])
        sim.drain()
        for index in range(3):
            sim.check(index)
        assert sim.late_wakeups() == 0


def test_workers_that_are_killed_again_and_again_lose_and_repeat_nothing():
    rng = random.Random(6)
    with ProcessSim([200, 200], 1, 1, capacity=300, frames=8) as sim:
        for step in range(40):
            while len(sim.open) < 5 and sim.submit(*[[rng.randrange(150) for _ in range(9)] for _ in sim.tables]):
                pass
            batch = sim.open[0]
            if step % 10 == 4:
                sim.claim_soon(batch, 0)  # claimed by one table, planned for the other
            if step % 10 == 9:
                sim.close(sim.open[2])  # dropped with a plan upon it
            if step % 5 == 4:
                sim.kill_worker(rng.choice([KEY, TABLE, TABLE]), 0)
            for index in range(2):
                if step % 10 != 4 or index:
                    sim.claim_soon(batch, index)
            sim.close(batch)
            sim.ring_all()
        while sim.open:
            sim.finish(sim.open[0])
        sim.drain()
        for index in range(2):
            sim.check(index)


def test_a_stream_that_is_added_is_answered_as_any_other_also_by_workers_that_come_later():
    with ProcessSim([50, 50], 2, 2, capacity=100) as sim:
        for step in range(3):
            sim.train([1, 2, step + 10], [step])
        sim.drain()
        keys = [[1, 2, 10, 11, 12, 99], [0, 1, 2, 3]]
        expected = sim.evaluate_through(sim.eval_pump, *keys)
        assert [sorted(key for key, slot in found.items() if slot < 0) for found in expected] == [[99], [3]]
        first, second = sim.add_stream(), sim.add_stream()
        assert sim.evaluate_through(first, *keys) == expected
        for kind, number in ((KEY, 0), (KEY, 1), (TABLE, 0), (TABLE, 1)):
            sim.kill_worker(kind, number)
            assert sim.evaluate_through(second, *keys) == sim.evaluate_through(first, *keys) == expected
        sim.train([99], [3])
        sim.drain()
        assert -1 not in [slot for found in sim.evaluate_through(first, *keys) for slot in found.values()]


def test_local_rings_are_served_by_key_workers_alone_also_by_those_that_come_later():
    with ProcessSim([50, 50], 2, 2, capacity=100) as sim:
        local, batches = sim.add_stream(LOCAL, 3), []
        for step in range(12):
            keys = [[step, -step, 5, 4, 3, 5], [7, 8, 9]]
            local.free_frames()
            batches.append(wait_until(lambda keys=keys: local.submit(*keys), what="room in the local ring"))
            if step in (3, 8):
                sim.kill_worker(KEY, step % 2)
                sim.kill_worker(TABLE, step % 2)
            sim.ring_all()
            sim.train(*keys)
            for table in range(2):
                wait_until(lambda table=table, number=batches[-1].number: local.word(number, table) == DEDUPED)
                part = local.ring.part(batches[-1].number, table)
                distinct = part.array("unique", part["unique_count"]).tolist()
                assert distinct == sorted(dict.fromkeys(keys[table]), key=lambda key: abs(key) % 3)
            local.frame(batches[-1].number)["closed"] = 1
            sim.ring_all()
        sim.drain()
        local.free_frames()
        assert (local.ring.header["head"], local.ring.header["tail"]) == (12, 12)


def test_an_idle_worker_leaves_when_its_supervisor_is_gone():
    with ProcessSim([10]) as sim:
        sim.train([1, 2])
        assert [worker.leave() for worker in sim.workers] == [0, 0]


def test_a_worker_without_room_in_its_log_sleeps_until_it_is_rung_at_the_end_of_the_snapshot():
    with ProcessSim([50], capacity=60, log_capacity=3) as sim:
        sim.train(list(range(20)))
        sim.drain()
        snapshot = sim.begin_snapshot(0, block=4)
        sim.finish(wait_until(lambda: sim.submit([3, 4]), what="room"))
        wait_until(lambda: sim.tables[0].header["snapshot_logged"] == 2, what="two images")
        waiting = wait_until(lambda: sim.submit([0, 19, 5]), what="room")
        sim.finish(waiting)
        wait_until(lambda: sim.tables[0].header["snapshot_waits"] == 1, what="a worker that waits")
        longest = time.monotonic() + 3 * SLICE_S
        while time.monotonic() < longest:  # nobody rings while it is copied
            if sim.tables[0].header["snapshot_copied"] < 16:
                assert snapshot.advance()
        assert sim.word(waiting.number, 0) == DONE
        while snapshot.advance():
            pass
        sim.ring_all()
        sim.drain()
        sim.check(0)
        assert snapshot.images == 2
        assert sim.late_wakeups() == 0
