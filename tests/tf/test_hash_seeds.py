"""Where workers look for keys first depends on the daemon's hash seed; nothing that a program sees does."""
import numpy as np
import pytest
import tensorflow as tf

from ascpipe.tf import Saver
from mx_rec.core.asc import start_asc_pipeline
from mx_rec.util.initialize import trigger_evict
from tests.support.covering import some
from tests.support.on_disk import on_disk
from tests.tf import programs
from tests.tf.one_table import DIM, batch, one_table

KEYS = 250
TIERS = {"device": {"device_vocabulary_size": KEYS},
         "host": {"device_vocabulary_size": 40, "host_vocabulary_size": KEYS}, "disk": on_disk(40, KEYS)}


def outcome(folder, tier):
    """What each step looked up, what is read afterwards, and what the checkpoint says of each key."""
    random = np.random.RandomState(5)
    batches = [batch(*random.zipf(1.3, 60) % KEYS, time=100 + step) for step in range(20)]
    with one_table(batches, range(KEYS), spec={"access_threshold": 2, "eviction_threshold": 5},
                   emb_initializer=tf.compat.v1.random_normal_initializer(seed=3),
                   stages=lambda data: data.prefetch(32), **TIERS[tier]) as program:
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            looked_up = [program.take() for _ in batches[:13]]
            trigger_evict()
            looked_up += [program.take() for _ in batches[13:]]
            Saver().save(run, str(folder / "model"))
            return looked_up, program.read(), per_key(folder / "sparse-model" / "ids")


def per_key(table):
    """key -> (count, time, row), or (count, time) without a row; in which order keys stand in files is no result."""
    def read(name, kind=np.int64):
        return np.fromfile(str(table / name / "slice.data"), kind)

    rows = read("embedding", np.float32).reshape(-1, DIM).tolist()
    return [sorted(zip(read("key"), read("count"), read("timestamp"), rows)),
            sorted(zip(*map(read, ("candidate_key", "candidate_count", "candidate_timestamp"))))]


@pytest.mark.parametrize("tier", some(TIERS, "disk"))
def test_lookups_rows_and_checkpoints_are_the_same_with_any_seed(tier, tmp_path, monkeypatch, private_daemon):
    found = []
    for seed in ("1", str(2 ** 63 - 1)):
        monkeypatch.setenv("ASCPIPE_HASH_SEED", seed)
        (tmp_path / seed).mkdir()
        found.append(outcome(tmp_path / seed, tier))
    assert found[0] == found[1]
    with_row, without = found[0][2]
    assert min(len(with_row), len(without)) > 5
