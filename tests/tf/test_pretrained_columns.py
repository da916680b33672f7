"""``pretrained`` of feature columns: rows of files are the initial rows of a column's table."""
import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.errors import ArgumentError, ColumnError
from ascpipe.tf import feature_column as columns
from tests.tf import column_programs as p
from tests.tf import programs
from tests.tf.test_pretrained import write_npy

fc = tf.feature_column
v1 = tf.compat.v1
pytestmark = [
    pytest.mark.filterwarnings("ignore:distutils Version classes"),
    pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices")]
KEYS = np.arange(0, 300, 2)
ROWS = np.random.RandomState(1).randn(len(KEYS), p.DIM).astype(np.float32)
VARIABLE = "input_layer/user_embedding/embedding_weights"


def users():
    return fc.categorical_column_with_identity("user", 300)


def first_outputs(build, *, start=False):
    """Users of the first batch, and what ``build`` makes of it before anything is trained."""
    features, iterator = p.batch(repeat=True)
    outputs = build(features)
    train = p.gradient_descent().minimize(p.loss_of(outputs, features["label"]))
    if start:
        asc.start()
    with programs.session() as session:
        session.run([iterator.initializer, v1.global_variables_initializer(), v1.tables_initializer()])
        return session.run([features["user"], outputs, train])[:2]


def expected(ids):
    """Rows of the files, or the initial value of ``p.embedding``."""
    rows = np.full((300, p.DIM), 0.25, np.float32)
    rows[KEYS] = ROWS
    return rows[ids]


def run_all_columns(folder, build, **pretrained):
    with tf.Graph().as_default():
        asc.use_for_feature_columns(min_buckets=100, **{"pretrained": {VARIABLE: str(folder)}, **pretrained})
        try:
            return first_outputs(build)
        finally:
            asc.shutdown()


def test_a_variable_of_use_for_feature_columns_starts_with_rows_of_files(tmp_path):
    ids, outputs = run_all_columns(write_npy(tmp_path / "npy", KEYS, ROWS), p.as_input_layer(p.embedding(users())))
    assert len(set((ids % 2).tolist())) == 2
    np.testing.assert_array_equal(outputs, expected(ids))


@pytest.mark.parametrize("kind", ["embedding", "shared", "linear"])
def test_a_column_with_its_own_argument_starts_with_rows_of_files(tmp_path, kind):
    dim = 1 if kind == "linear" else p.DIM
    given = {"pretrained": str(write_npy(tmp_path / "npy", KEYS, ROWS[:, :dim]))}
    with p.own():
        if kind == "embedding":
            build = p.as_input_layer(columns.embedding_column(users(), p.DIM, initializer=p.constant(), **given))
        elif kind == "shared":
            build = p.as_input_layer(*columns.shared_embedding_columns([users()], p.DIM, initializer=p.constant(),
                                                                       **given))
        else:
            weights = columns.linear_weights(users(), **given)

            def build(features):
                return v1.feature_column.linear_model(features, [weights])
        ids, outputs = first_outputs(build, start=True)
    rows = expected(ids)[:, :dim]
    if kind == "linear":
        rows = np.where(np.isin(ids, KEYS)[:, None], rows, 0)
    np.testing.assert_array_equal(outputs, rows)


def test_rows_for_a_variable_without_a_table_or_without_a_column_are_refused(tmp_path):
    folder = write_npy(tmp_path / "npy", KEYS, ROWS)
    with pytest.raises(ColumnError, match="no feature column has a variable of this name. The variables are '" +
                                          VARIABLE):
        run_all_columns(folder, p.as_input_layer(p.embedding(users())), pretrained={"user": str(folder)})
    with pytest.raises(ColumnError, match="pretrained has rows for it, but it has no table: 30 buckets, below 100"):
        few = fc.categorical_column_with_identity("user", 30, default_value=0)
        run_all_columns(folder, p.as_input_layer(p.embedding(few)))


def test_wrong_paths_are_refused():
    for wrong in ([("a", "b")], {"a": 3}, {"": "b"}, {"a": ""}):
        with pytest.raises(ArgumentError, match="pretrained"):
            asc.use_for_feature_columns(pretrained=wrong)
