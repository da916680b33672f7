"""The demo's file format, reader, generator and AUC."""
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.dlrm import auc, criteo, generator

NUMBERS = ["3", "", "-2", "0", "1618112", "", "7", "1", "0", "", "2", "1", "4"]
IDS = ["{:08x}".format(number) for number in range(20)] + ["", "ffffffff", "DEADBEEF", "80000000", "", "0000000a"]


def row(label="1", numbers=NUMBERS, ids=IDS):
    return "\t".join([label] + list(numbers) + list(ids))


def write(path, lines):
    path.write_text("".join(line + "\n" for line in lines))
    return str(path)


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("rows") / "rows.tsv")
    generator.write_file(path, rows=5000, seed=3)
    return path


@pytest.fixture(scope="module")
def reader():
    from examples.dlrm import reader  # TensorFlow: not for the tests that do without

    return reader


def read(reader, path, **options):
    """Every batch of a dataset, as numpy."""
    from examples.dlrm.quiet import tf

    batches = []
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        batch = tf.compat.v1.data.make_one_shot_iterator(reader.dataset(path, **options)).get_next()
        while True:
            try:
                batches.append(session.run(batch))
            except tf.errors.OutOfRangeError:
                return batches


# ---- file ------------------------------------------------------------------------------------------------

def test_every_tenth_line_is_held_out_and_the_others_are_trained(tmp_path):
    lines = [row(ids=["{:08x}".format(number)] + IDS[1:]) for number in range(57)]
    files = criteo.split(write(tmp_path / "rows", lines), str(tmp_path))
    assert files.training_rows == 52 and files.held_out_rows == 5
    for path, numbers in ((files.training, [number for number in range(57) if number % 10 != 9]),
                          (files.held_out, [9, 19, 29, 39, 49])):
        with open(path) as copied:
            assert copied.read().splitlines() == [lines[number] for number in numbers]


def test_a_missing_file_is_refused_by_name(tmp_path):
    with pytest.raises(criteo.BadFileError, match="gone.tsv: no such file"):
        criteo.split(str(tmp_path / "gone.tsv"), str(tmp_path))


@pytest.mark.parametrize("bad, reason", [
    ("\t".join(row().split("\t")[:-1]), "39 columns"), (row() + "\t", "41 columns"), ("", "0 columns"),
])
def test_a_line_with_a_wrong_number_of_columns_is_refused_by_its_number(tmp_path, bad, reason):
    path = write(tmp_path / "rows", [row()] * 16 + [bad] + [row()] * 3)
    with pytest.raises(criteo.BadFileError, match="rows: line 17: {}, want 40".format(reason)):
        criteo.split(path, str(tmp_path))


def test_a_file_too_short_to_hold_rows_out_is_refused(tmp_path):
    with pytest.raises(criteo.BadFileError, match="9 rows"):
        criteo.split(write(tmp_path / "rows", [row()] * 9), str(tmp_path))


@pytest.mark.parametrize("bad, column", [
    (row(label="2"), r"column 1 \(label\) is '2'"),
    (row(numbers=["1.5"] + NUMBERS[1:]), r"column 2 \(I1\) is '1.5'"),
    (row(ids=IDS[:25] + ["xyz"]), r"column 40 \(C26\) is 'xyz'"),
    (row(ids=["f" * 20] + IDS[1:]), r"column 15 \(C1\) is 'ffffffffffffffffffff'"),
])
def test_a_bad_value_fails_the_reader_and_is_explained_with_line_and_column(reader, tmp_path, bad, column):
    from examples.dlrm.quiet import tf

    path = write(tmp_path / "rows", [row()] * 4 + [bad] + [row()] * 20)
    with pytest.raises(tf.errors.InvalidArgumentError):
        read(reader, path, batch_size=8)
    with pytest.raises(criteo.BadFileError, match="line 5: " + column):
        criteo.explain(path)


def test_a_good_file_has_nothing_to_explain(generated):
    assert criteo.explain(generated) is None


# ---- reader ----------------------------------------------------------------------------------------------

def test_values_are_decoded(reader, tmp_path):
    path = write(tmp_path / "rows", [row(label="0"), row(label="1")] * 5)
    batch, = read(reader, path, batch_size=100)
    assert batch["label"].tolist() == [0, 1] * 5
    wanted = np.log1p([max(int(number), 0) if number else 0 for number in NUMBERS])
    np.testing.assert_allclose(batch["dense"], np.tile(wanted, (10, 1)), rtol=1e-6)
    for number, (field, text) in enumerate(zip(criteo.FIELDS, IDS)):
        wanted_id = int(text, 16) if text else reader.MISSING
        assert batch[field].tolist() == [(number << reader.FIELD_SHIFT) + wanted_id] * 10


# ---- generator -------------------------------------------------------------------------------------------

def test_the_same_seed_writes_the_same_file_and_another_seed_another(tmp_path, generated):
    again, other = str(tmp_path / "again"), str(tmp_path / "other")
    generator.write_file(again, rows=5000, seed=3)
    generator.write_file(other, rows=5000, seed=4)
    with open(generated, "rb") as first, open(again, "rb") as second, open(other, "rb") as third:
        content = first.read()
        assert content == second.read()
        assert content != third.read()


def test_generated_rows_have_both_labels_and_few_values_are_frequent(reader, generated):
    batch, = read(reader, generated, batch_size=6000)
    assert len(batch["label"]) == 5000
    assert .1 < batch["label"].mean() < .5
    for field, most in zip(criteo.FIELDS, generator.FIELD_VALUES):
        _, counts = np.unique(batch[field], return_counts=True)
        assert len(counts) <= most + 1
        assert counts.max() > 3 * counts.mean() or most < 20


def test_the_generators_command_line_refuses_nonsense(capsys):
    with pytest.raises(SystemExit) as stopped:
        generator.main(["rows.tsv", "--rows", "0"])
    assert stopped.value.code == 2
    assert "--rows must be at least 1" in capsys.readouterr().err


# ---- area under the curve --------------------------------------------------------------------------------

@given(st.lists(st.tuples(st.booleans(), st.integers(-3, 3)), min_size=1, max_size=40))
def test_auc_is_the_share_of_pairs_in_the_right_order(rows):
    labels = np.array([float(label) for label, _ in rows])
    scores = np.array([float(score) for _, score in rows])
    pairs = [(high > low) + .5 * (high == low)
             for high in scores[labels == 1] for low in scores[labels == 0]]
    if pairs:
        assert auc.area_under_curve(labels, scores) == pytest.approx(np.mean(pairs))
    else:
        assert np.isnan(auc.area_under_curve(labels, scores))


def test_log_loss_of_even_odds_is_log_two_and_extreme_logits_do_not_overflow():
    labels = np.array([0., 1.])
    assert auc.log_loss(labels, np.zeros(2)) == pytest.approx(np.log(2))
    assert auc.log_loss(labels, np.array([-1e4, 1e4])) == pytest.approx(0)
    assert auc.log_loss(labels, np.array([1e4, -1e4])) == pytest.approx(1e4)
