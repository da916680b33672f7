"""The op that puts initial rows in the places of keys without a row, without a pipeline."""
import numpy as np
import pytest
import tensorflow as tf

from ascpipe.layout.initial_kinds import CONSTANT, NORMAL, POOL, TRUNCATED_NORMAL, UNIFORM
from ascpipe.tf.running import native
from tests.reference import initial_rows
from tests.tf import programs

DIM = 5
SEED = (1 << 64) - 12345
POOL_ROWS = np.random.RandomState(1).randn(7, DIM).astype(np.float32)
# Numbers that no float32 is: they must arrive as double.
PARAMETERS = (-0.1, 0.3, 1.1)
KEYS = np.array([[0, -1, 2 ** 31 - 1], [-2 ** 31, 77, 8]])
FOUND = np.array([[True, False, False], [False, True, False]])


def completed(threads=1, *, keys=KEYS, found=FOUND, rows=None, kind=UNIFORM, seed=SEED, parameters=PARAMETERS,
              pool=None, dim=DIM, table=-1):
    """What the op gives, and what its input holds afterwards, which something else reads, too."""
    rows = np.random.RandomState(2).randn(*np.shape(keys), dim).astype(np.float32) if rows is None else rows
    values = {"rows": rows, "keys": keys, "found": found, "parameters": np.array(parameters, np.float64),
              "pool": np.zeros([0, dim], np.float32) if pool is None else pool}
    with tf.Graph().as_default():
        fed = {name: tf.compat.v1.placeholder(value.dtype) for name, value in values.items()}
        how = {"dim": dim, "seed": seed - (1 << 64) if seed >> 63 else seed, "kind": kind, "table": table}
        made = [native.ops().asc_with_initial_rows(**{**fed, "rows": given}, **how)
                for given in (fed["rows"] + 0.0, fed["rows"])]  # of the first one it may take over the memory
        with programs.session(intra_op_parallelism_threads=threads) as run:
            first, second, after = run.run(
                [*made, tf.identity(fed["rows"])], {fed[name]: value for name, value in values.items()})
    assert np.array_equal(after, rows)
    assert np.array_equal(first, second)
    return first, rows


def wanted(rows, keys, found, kind, pool=None):
    expected = rows.copy()
    for place in (each for each in np.ndindex(found.shape) if not found[each]):
        expected[place] = initial_rows.row(
            SEED, kind, *PARAMETERS, int(keys[place]), rows.shape[-1], () if pool is None else pool)
    return expected


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("kind", [CONSTANT, UNIFORM, NORMAL, TRUNCATED_NORMAL, POOL])
@pytest.mark.each_value
def test_keys_without_a_row_get_that_of_their_seed_bit_by_bit(kind, dtype):
    pool = POOL_ROWS if kind == POOL else None
    found, rows = completed(keys=KEYS.astype(dtype), kind=kind, pool=pool)
    assert found.tobytes() == wanted(rows, KEYS, FOUND, kind, pool).tobytes()


def test_any_shape_of_keys_is_served_by_several_threads():
    random = np.random.RandomState(3)
    for shape in ((), (0, 3), (4000, 2)):
        keys, has = random.randint(-2 ** 62, 2 ** 62, shape), np.array(random.randint(0, 2, shape), bool)
        found, rows = completed(4, keys=np.array(keys), found=has, dim=3)
        assert found.shape == (*shape, 3)
        assert found.tobytes() == wanted(rows, np.array(keys), has, UNIFORM).tobytes()


@pytest.mark.parametrize("changes, text", [
    ({"rows": np.zeros([2, 3, 4], np.float32)}, r"rows have shape \[2,3,4\], expected \[2,3,5\], that of the keys"),
    ({"found": FOUND[:1]}, r"found has shape \[1,3\], keys have \[2,3\]"),
    ({"parameters": (1.0, 2.0)}, r"parameters have shape \[2\], expected \[3\]: a, b and scale"),
    ({"pool": np.zeros([2, 4], np.float32)}, r"pool has shape \[2,4\], expected \[pool rows, 5\]"),
    ({"kind": POOL}, "pool has 0 rows, expected 1 to 2"),
    ({"kind": 5}, r"kind of initial rows 5 is outside \[0, 4\]"),
])
def test_inputs_that_do_not_fit_are_refused(changes, text):
    with pytest.raises(tf.errors.InvalidArgumentError, match="AscWithInitialRows: " + text):
        completed(**changes)


def test_a_table_needs_its_pipeline():
    with pytest.raises(tf.errors.FailedPreconditionError, match="E205: The pipeline was (not started|stopped by .*)"):
        completed(table=0)


def test_shapes_that_are_known_are_told():
    with tf.Graph().as_default():
        made = native.ops().asc_with_initial_rows(
            rows=tf.zeros([2, 3, DIM]), keys=KEYS, found=FOUND, parameters=np.zeros(3), pool=tf.zeros([0, DIM]),
            dim=DIM)
        assert made.shape.as_list() == [2, 3, DIM]
        with pytest.raises(ValueError, match="must be equal"):
            native.ops().asc_with_initial_rows(
                rows=tf.zeros([2, 3, DIM]), keys=KEYS, found=FOUND[:1], parameters=np.zeros(3),
                pool=tf.zeros([0, DIM]), dim=DIM)
