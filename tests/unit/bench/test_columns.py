"""The program on feature columns: its sides get the same ids, and its small sizes are those of tables."""
import numpy as np

from bench import columns_sides, usual_columns, workloads
from bench.cases import columns, startup
from bench.usual_columns import LEAST_BUCKETS, Setting
from bench.usual_model import OURS, PLAIN


def test_ids_are_short_texts_the_same_on_both_sides_and_others_in_each_field():
    setting = Setting(OURS, 3, 64, buckets=1000, batches=2)
    features, labels = usual_columns.batches(setting)
    again, labels_again = usual_columns.batches(setting._replace(side=PLAIN))
    assert sorted(features) == ["C1", "C2", "C3"]
    for name, ids in features.items():
        assert (ids.dtype, ids.shape) == (np.dtype("S10"), (2, 64))
        assert all(0 <= int(text) < 2 ** 32 for text in ids.ravel())
        assert np.array_equal(ids, again[name])
    assert not np.array_equal(features["C1"], features["C2"])
    assert labels.shape == (2, 64, 1) and set(labels.ravel()) == {0, 1}
    assert np.array_equal(labels, labels_again)


def test_small_sizes_have_buckets_enough_for_tables_and_full_ones_a_million(monkeypatch):
    setting = columns.SETTINGS["26x512"]
    monkeypatch.delenv(workloads.SMALL_VARIABLE, raising=False)
    assert columns_sides.sized(setting) == setting == Setting(OURS, 26, 512, buckets=10 ** 6)
    monkeypatch.setenv(workloads.SMALL_VARIABLE, "1")
    assert columns_sides.sized(setting).buckets >= LEAST_BUCKETS


def test_each_size_has_a_goal_and_so_has_the_start():
    assert set(columns.CASE.goals) == set(columns.CASE.variants) == set(columns.SETTINGS)
    assert "columns" in startup.CASE.goals
