"""Whether a key comes twice is found exactly, however the keys are spread; each key belongs to one rank."""
import numpy as np
import pytest

from ascpipe.checkpoint import keys as key_sets
from ascpipe.checkpoint.keys import belongs, repeated

INT64 = np.iinfo(np.int64)
COUNT = 50000

SPREADS = {
    "in order": lambda dice: np.arange(COUNT),
    "from high to low": lambda dice: np.arange(COUNT)[::-1].copy(),
    "shuffled": lambda dice: dice.permutation(COUNT),
    "random": lambda dice: np.unique(dice.randint(INT64.min, INT64.max, 2 * COUNT, np.int64))[:COUNT],
    "in the upper bits only": lambda dice: dice.permutation(COUNT) << 44,
    "at both ends": lambda dice: dice.permutation(np.r_[INT64.min:INT64.min + COUNT, INT64.max - COUNT:INT64.max]),
    "few": lambda dice: dice.permutation(7),
}


@pytest.mark.parametrize("spread", sorted(SPREADS))
def test_a_key_that_comes_twice_is_found_wherever_it_stands(seed, spread):
    dice = np.random.RandomState(seed)
    keys = SPREADS[spread](dice)
    assert repeated(keys.copy()) is None
    for _ in range(20):
        one, other = dice.choice(len(keys), 2, replace=False)
        changed = keys.copy()
        changed[one] = keys[other]
        assert repeated(changed) == keys[other]


def test_many_keys_that_come_twice_are_found(seed):
    keys = np.random.RandomState(seed).randint(0, 2000, COUNT)
    assert repeated(keys) is not None
    assert repeated(np.full(COUNT, -1)) == -1


def test_no_key_comes_twice_among_none_or_one():
    assert repeated(np.empty(0, np.int64)) is None
    assert repeated(np.array([5])) is None


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 7, 8])
def test_a_key_belongs_to_the_rank_that_its_exact_absolute_value_names(seed, ranks):
    ends = np.array([INT64.min, INT64.min + 1, -1, 0, 1, INT64.max])  # the absolute value of the first is not an int64
    keys = np.r_[ends, np.random.RandomState(seed).randint(INT64.min, INT64.max, 100, np.int64)]
    for rank in range(ranks):
        assert belongs(keys, rank, ranks).tolist() == [abs(int(key)) % ranks == rank for key in keys]


@pytest.mark.parametrize("cached", [1, COUNT + 1])
@pytest.mark.parametrize("spread", sorted(SPREADS))
@pytest.mark.each_value
def test_places_of_keys_are_those_of_a_dictionary(seed, spread, cached, monkeypatch):
    monkeypatch.setattr(key_sets, "_CACHED", cached)
    dice = np.random.RandomState(seed)
    sought = SPREADS[spread](dice)
    keys = np.sort(dice.choice(sought, len(sought) // 2, replace=False))
    place, is_there = key_sets.places(keys, sought)
    known = {key: number for number, key in enumerate(keys.tolist())}
    assert is_there.tolist() == [key in known for key in sought.tolist()]
    assert place[is_there].tolist() == [known[key] for key in sought[is_there].tolist()]
    assert not key_sets.places(keys[:0], sought)[1].any()
