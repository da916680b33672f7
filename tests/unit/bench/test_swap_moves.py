"""The baseline of the swap case moves what a device that holds the batch before has to move, no row twice."""
import numpy as np

from bench.cases import swap


def test_after_the_moves_of_a_batch_the_device_holds_its_keys_and_the_host_all_others():
    random = np.random.RandomState(1)
    batches = np.concatenate([random.permutation(40) for _ in range(3)]).reshape(-1, 4)
    home_of = {key: home for home, key in enumerate(batches[:swap.PART].reshape(-1).tolist())}
    device = dict(enumerate(batches[-1].tolist()))
    for batch, moves in zip(batches, swap._moves(batches)):
        assert len(set(moves.in_slots.tolist())) == len(moves.in_slots) == len(moves.out_slots) == len(moves.in_homes)
        assert [home_of[device[slot]] for slot in moves.out_slots.tolist()] == moves.out_homes.tolist()
        key_of = {home: key for key, home in home_of.items()}
        for slot, home in zip(moves.in_slots.tolist(), moves.in_homes.tolist()):
            device[slot] = key_of[home]
        assert set(device.values()) == set(batch.tolist())
