"""Files of the case `input` of the bench, read by TensorFlow."""
import numpy as np
import pyarrow.parquet  # noqa: F401  (its import opens descriptors, which stay open)
import pytest
import tensorflow as tf

from bench import parse_program, usual_input, usual_model
from bench.parse_program import Setting
from bench.usual_model import DENSE, LABEL, LINES, OURS, PARQUET, RECORDS, SHUFFLED_RECORDS, SINGLE_RECORDS

v1 = tf.compat.v1


def first(dataset, count):
    """The first elements of a dataset."""
    iterator = v1.data.make_initializable_iterator(dataset)
    batch = iterator.get_next()
    with v1.Session() as session:
        session.run(iterator.initializer)
        return [session.run(batch) for _ in range(count)]


@pytest.fixture(autouse=True)
def _own_graph():
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize("source", [RECORDS, SINGLE_RECORDS, SHUFFLED_RECORDS, LINES, PARQUET])
def test_all_sources_of_a_program_have_the_batches_of_its_model(source, tmp_path):
    setting = usual_model.Setting(OURS, 3, 32, keys=5000, batches=4, source=source, data=str(tmp_path / "file"))
    usual_input.write_file(setting, setting.data)
    features, labels = usual_model.batches(setting)
    expected = [labels.ravel(), *(ids.ravel() for ids in features.values())]
    batches = first(usual_input.dataset_of(v1, setting), setting.batches)
    assert set(batches[0]) == {LABEL, DENSE, *features}
    assert all(batch[DENSE].shape == (32, usual_input.FLOATS) and len(set(batch[DENSE].ravel())) > 300
               for batch in batches)
    found = [np.concatenate([batch[name] for batch in batches]) for name in (LABEL, *features)]
    assert [column.dtype for column in found] == [np.float32] + [np.int64] * 3
    if source in (SINGLE_RECORDS, SHUFFLED_RECORDS):
        assert sorted(zip(*found)) == sorted(zip(*expected)) and not np.array_equal(found, expected)
    else:
        assert np.array_equal(found, expected)


def test_lists_of_a_parser_have_one_value_to_the_maximum(tmp_path):
    setting = Setting(OURS, 2, most_values=20, rows=64, keys=3 * 10 ** 6, batches=2, data=str(tmp_path / "file"))
    parse_program.write_file(setting, setting.data)
    batch = first(parse_program.dataset_of(v1, setting), 1)[0]
    counts = np.bincount(batch["C1"].indices[:, 0])
    assert counts.min() >= 1 and 15 < counts.max() <= 20 and counts.size == 64
    assert batch["C2"].values.min() >= 0 and 2 ** 14 < batch["C2"].values.max() < setting.keys


def test_the_order_of_features_differs_from_record_to_record(tmp_path):
    setting = Setting(OURS, 26, floats=13, rows=64, batches=2, data=str(tmp_path / "file"))
    parse_program.write_file(setting, setting.data)
    names = [b"\x0a\x02C%d\x12" % number for number in range(1, 10)]
    orders = [sorted(names, key=record.index) for record in first(tf.data.TFRecordDataset(setting.data), 128)]
    same = [one == other for before, order in zip(orders, orders[1:]) for one, other in zip(before, order)]
    assert np.mean(same) < .25
