"""What workers make of local rings, of which only key workers take frames."""
import numpy as np
import pytest

from ascpipe.kernels.hashing import spread_of
from ascpipe.layout.words import DEDUPED, LOCAL, SUBMITTED, TRAIN
from ascpipe.workers.key_worker import KeyStage
from ascpipe.workers.pace import Pace
from ascpipe.workers.recording import Progress
from ascpipe.workers.runner import StreamView
from tests.support.sim_ring import SimRing
from tests.support.stepwise import no_listeners

KEYS = [1, 4, 23, 14, 16, 7, 2, 21, 21, 29]


@pytest.fixture
def local():
    return SimRing(2, 16, 1 << 16, look_ahead=3, channel=LOCAL, rank_size=4)


def key_stage(sim, generation=7):
    return KeyStage(sim.ring, generation, no_listeners(), spread_of(generation))


def work(keys):
    while keys.step():
        pass


def found(sim, number, table):
    part = sim.ring.part(number, table)
    n = part["unique_count"]
    return (part.array("unique", n).tolist(), part.array("restore", part["id_count"]).tolist(),
            part.array("occurrences", n).tolist())


def test_a_key_worker_orders_the_keys_of_a_local_ring_by_their_owners_and_sums_their_weights(local):
    batch = local.submit(KEYS, [5, 2, 5], weights=([1] * 10, [3, 0, 4]))
    assert key_stage(local).step() == 1
    assert found(local, batch.number, 0) == (
        [4, 16, 1, 21, 29, 14, 2, 23, 7], [2, 0, 7, 5, 1, 8, 6, 3, 3, 4], [1, 1, 1, 2, 1, 1, 1, 1, 1])
    assert found(local, batch.number, 1) == ([5, 2], [0, 1, 0], [7, 0])


def test_the_keys_of_an_owned_ring_are_the_union_in_the_order_of_the_ranks():
    owned = SimRing(1, 8, 1 << 16, channel=TRAIN)
    batch = owned.submit([8, 4, 12, 4, 16, 8], weights=([2, 1, 1, 5, 1, 1],))  # rank 0 asks for three, then rank 1
    key_stage(owned).step()
    assert found(owned, batch.number, 0) == ([8, 4, 12, 16], [0, 1, 2, 1, 3, 0], [3, 6, 1, 1])


def test_another_key_worker_repeats_byte_by_byte_what_one_that_was_killed_had_not_published(local):
    batch = local.submit(KEYS, KEYS[::-1])
    first = key_stage(local, 7)
    first.step()
    made = [found(local, batch.number, table) for table in range(2)]
    for table in range(2):  # as if it had been killed before its last stores
        local.ring.store_word(batch.number, table, SUBMITTED)
        local.ring.part(batch.number, table).array("unique", 10)[3:] = -99
        local.ring.part(batch.number, table).array("restore", 10)[:] = 2**31 - 1
    local.clear_claims(7)
    assert key_stage(local, 8).step() == 1
    assert [found(local, batch.number, table) for table in range(2)] == made


def test_a_large_batch_is_dealt_among_the_most_ranks_with_the_scratch_that_is_provided():
    sim = SimRing(1, 4, 1 << 20, channel=LOCAL, rank_size=4095)
    keys = np.random.RandomState(0).randint(-2**63, 2**63 - 1, 3000).tolist()
    batch = sim.submit(keys)
    key_stage(sim).step()
    distinct, restore, _ = found(sim, batch.number, 0)
    assert [distinct[place] for place in restore] == keys
    assert distinct == sorted(dict.fromkeys(keys), key=lambda key: abs(key) % 4095)


def test_a_closed_frame_of_a_local_ring_comes_back_once_it_is_deduplicated(local):
    batch = local.submit([1], [2])
    local.frame(batch.number)["closed"] = 1
    local.free_frames()
    assert local.ring.header["head"] == 0
    work(key_stage(local))
    local.free_frames()
    assert local.ring.header["head"] == 1


def test_a_key_worker_pauses_by_the_batches_whose_keys_may_travel_beyond_those_on_their_way(local, monkeypatch):
    monkeypatch.setattr(Pace, "pause_s", lambda _pace, ahead: ahead)
    keys = key_stage(local)
    batches = [local.submit([1], [2]) for _ in range(7)]
    assert keys.pause_s() == -3  # none is deduplicated, so none can travel
    work(keys)
    assert keys.pause_s() == 4
    for batch in batches[:2]:
        local.frame(batch.number)["closed"] = 1  # trained
    local.ring.store_word(batches[3].number, 1, SUBMITTED)  # another key worker is not done with it
    assert keys.pause_s() == 1


def test_batches_that_a_local_ring_has_given_back_are_its_pace(local, monkeypatch):
    keys, now = key_stage(local), [0.0]
    monkeypatch.setattr("ascpipe.workers.pace.time.perf_counter", lambda: now[0])
    keys._pace._seen_s = 0.0
    batches = [local.submit([1], [2]) for _ in range(15)]
    work(keys)
    assert keys.pause_s() is None  # none was trained since
    for batch in batches[:2]:
        local.frame(batch.number)["closed"] = 1
    local.free_frames()
    now[0] = 0.002
    assert keys.pause_s() == pytest.approx(0.005)  # ten of a millisecond each, half of them


@pytest.mark.parametrize("kind, newest", [("key", [1]), ("table", [])])
def test_a_table_worker_records_nothing_of_a_local_ring(local, kind, newest):
    progress = Progress(StreamView(local.ring, LOCAL, [0, 1]), kind)
    for _ in range(2):
        local.submit([1], [2])
    work(key_stage(local))
    assert [local.word(1, table) for table in range(2)] == [DEDUPED, DEDUPED]
    assert progress.newest() == newest
