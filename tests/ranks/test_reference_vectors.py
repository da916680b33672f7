"""What four ranks make of the ids of the incumbent's own tests, in the rings of a program that trains."""
import json

import pytest

from tests.support.ascend_programs import PROGRAMS
from tests.support.ranked_runs import ended
from tests.support.several_ranks import horovodrun, needs_horovod

pytestmark = [needs_horovod, pytest.mark.long, pytest.mark.timeout_s(280)]

RANKS = 4
SPREAD = [1, 4, 23, 14, 16, 7, 2, 21, 21, 29]  # the ids of table 0, on all ranks
OF_RANK_0 = [11, 11, 6, 16, 14, 8, 6, 5, 8, 6, 14, 11, 4, 12, 1, 13]
#: Of table 1, by rank: rank 0 gets 16 8 4 12 from itself, then 8 4 16 12, nothing, and 4 8 12 16.
IDS = [[SPREAD, OF_RANK_0], [SPREAD, [8, 4, 16, 12]], [SPREAD, [3, 3]], [SPREAD, [4, 8, 12, 16]]]


@pytest.fixture(scope="module")
def rings(tmp_path_factory):
    """By rank, channel and table: the arrays of a batch."""
    folder = tmp_path_factory.mktemp("vectors")
    (folder / "ids.json").write_text(json.dumps(IDS))
    code, out, err = ended(horovodrun(RANKS, "{}/reference_vectors.py".format(PROGRAMS), folder))
    assert code == 0, out + err
    return [json.loads((folder / "{}.json".format(rank)).read_text()) for rank in range(RANKS)]


def buckets(keys):
    return [[key for key in keys if abs(key) % RANKS == owner] for owner in range(RANKS)]


def test_keys_go_to_their_owners_in_the_order_of_first_appearance(rings):
    for rank in range(RANKS):
        unique = rings[rank]["local"][0]["unique"]
        assert unique == [4, 16, 1, 21, 29, 14, 2, 23, 7]
        assert buckets(unique) == [[4, 16], [1, 21, 29], [14, 2], [23, 7]]


def test_an_id_knows_the_place_of_its_key_in_the_bucket_of_its_owner(rings):
    local = rings[3]["local"][0]
    places = [sum(len(bucket) for bucket in buckets(local["unique"])[:abs(key) % RANKS]) for key in SPREAD]
    assert [at - start for at, start in zip(local["restore"], places)] == [0, 0, 0, 0, 1, 1, 1, 1, 1, 2]


def test_the_restore_index_is_that_of_the_reference(rings):
    restore = rings[0]["local"][1]["restore"]
    assert restore == [9, 9, 7, 0, 8, 1, 7, 4, 1, 7, 8, 9, 2, 3, 5, 6]
    # The form with room for 10 keys of each owner, of which this is the one without gaps.
    starts = [0, 4, 7, 9]
    assert [at - starts[abs(key) % RANKS] + 10 * (abs(key) % RANKS) for at, key in zip(restore, OF_RANK_0)] == \
        [30, 30, 20, 0, 21, 1, 20, 10, 1, 20, 21, 30, 2, 3, 11, 12]


def test_an_owner_merges_what_ranks_ask_for_in_their_order_and_gives_each_key_one_slot(rings):
    owned = rings[0]["train"][1]
    assert owned["ids"] == [16, 8, 4, 12, 8, 4, 16, 12, 4, 8, 12, 16]
    assert owned["restore"] == [0, 1, 2, 3, 1, 2, 0, 3, 2, 1, 3, 0]
    assert owned["unique"] == [16, 8, 4, 12]
    assert owned["occurrences"] == [1 + 1 + 1, 2 + 1 + 1, 1 + 1 + 1, 1 + 1 + 1]
    assert [owned["slots"][at] for at in owned["restore"]] == [0, 1, 2, 3, 1, 2, 0, 3, 2, 1, 3, 0]


def test_all_that_ranks_ask_for_is_at_its_owner(rings):
    for owner in range(RANKS):
        for table in range(2):
            asked = [key for rank in range(RANKS) for key in buckets(rings[rank]["local"][table]["unique"])[owner]]
            assert rings[owner]["train"][table]["ids"] == asked
