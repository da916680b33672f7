"""Habits of programs with variables, on a table: the error names the function of a table that does the same."""
import copy

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.errors import ArgumentError, RowInitializerError, TableUseError
from tests.tf import twin_programs

v1 = tf.compat.v1
MATRIX = np.ones([50, 3], np.float32)


@pytest.fixture(autouse=True)
def graph():
    with twin_programs.ascpipe():
        yield


def new_table(initializer=None):
    return asc.create_table("user", 3, initializer=initializer or v1.zeros_initializer(), device_vocabulary_size=10)


@pytest.mark.parametrize("given, named", [
    (MATRIX, r"ndarray of shape \[50, 3\]"), ([[1.0] * 3] * 50, "list"),
    (tf.constant, None)], ids=["array", "list", "tensor"])
def test_a_matrix_in_place_of_an_initializer_names_pretrained_and_shows_no_values(given, named):
    value = tf.constant(MATRIX) if named is None else given
    with pytest.raises(ArgumentError, match="E260: .* initializer: {}.* pretrained=DIRECTORY".format(
            named or "(Eager|Symbolic)?Tensor")) as caught:
        asc.create_table("user", 3, initializer=value, device_vocabulary_size=10)
    assert "1.0" not in str(caught.value) and "1., 1." not in str(caught.value)


def test_a_constant_initializer_with_a_matrix_names_pretrained():
    with pytest.raises(RowInitializerError, match=r"E269: .*has 150 values.*keys.npy and rows.npy.*pretrained="):
        new_table(v1.constant_initializer(MATRIX))


@pytest.mark.parametrize("attribute", ["load", "eval", "initializer", "scatter_add"])
def test_attributes_of_variables_name_what_a_table_has_instead(attribute):
    table = new_table()
    with pytest.raises(AttributeError, match="E253: Table 'user' .*{!r}.*table.read.*table.assign.*pretrained".format(
            attribute)):
        getattr(table, attribute)
    assert not hasattr(table, attribute)


@pytest.mark.parametrize("use", [lambda table: table[1:], lambda table: table[0], lambda table: table[1:, :], list],
                         ids=["slice", "index", "two slices", "list"])
def test_a_table_that_is_sliced_or_indexed_names_what_it_has_instead(use):
    with pytest.raises(TableUseError, match="E253: Table 'user' .*sliced.*asc.sparse_lookup.*padding_keys.*table.read"):
        use(new_table())


@pytest.mark.parametrize("use", [
    tf.nn.l2_loss, tf.transpose, lambda table: tf.matmul(tf.ones([2, 3]), table, transpose_b=True),
    lambda table: v1.train.Saver({"items": table})], ids=["l2_loss", "transpose", "matmul", "Saver"])
def test_an_op_that_takes_a_table_is_told_to_take_its_rows(use):
    with pytest.raises(TableUseError if use is tf.transpose else (ValueError, TypeError),
                       match="E253: .*tf.nn.l2_loss and tf.matmul, take the rows.*A Saver saves all tables"):
        use(new_table())


def test_other_attributes_that_are_missing_get_the_usual_error():
    with pytest.raises(AttributeError, match="^'Table' object has no attribute 'lookup'$"):
        _ = new_table().lookup


def test_an_object_without_its_attributes_does_not_recurse():
    bare = asc.Table.__new__(asc.Table)
    with pytest.raises(AttributeError, match="table_name"):
        _ = bare.load
    assert isinstance(copy.copy(bare), asc.Table)


@pytest.mark.parametrize("run", [
    lambda session, table: session.run(table),
    lambda session, table: session.run({"rows": [table]}),
    lambda session, table: session.run(tf.constant(1), {table: MATRIX})], ids=["fetch", "nested", "feed"])
def test_a_table_in_a_run_names_read_and_assign(run):
    table = new_table()
    with v1.Session() as session, pytest.raises(
            TableUseError, match="E253: Table 'user' .* a session cannot (fetch|feed) it.*table.read.*table.assign"):
        run(session, table)
