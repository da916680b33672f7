"""Initial rows by ops of TensorFlow have the bits of the reference."""
import numpy as np
import pytest
import tensorflow as tf

from ascpipe.layout.initial_kinds import CONSTANT, NORMAL, POOL, TRUNCATED_NORMAL, UNIFORM
from ascpipe.tf.running.shapes import NO_TABLE, TableShape
from ascpipe.tf.serving import stock_initial_rows
from tests.reference import initial_rows
from tests.tf import programs

INT64 = np.iinfo(np.int64)
RANDOM = np.random.RandomState(1)
KEYS = np.concatenate([[INT64.min, INT64.max, 0, 1, -1], RANDOM.randint(-2 ** 62, 2 ** 62, 60)])
PARAMETERS = (-0.1, 0.3, 1.1)  #: numbers that no float32 is


def computed(build, values):
    """What a graph gives for values, which Grappler cannot fold."""
    with tf.Graph().as_default(), programs.session() as run:
        given = tf.compat.v1.placeholder(values.dtype, [None])
        return run.run(build(given), {given: values})


@pytest.mark.parametrize("seed", [5, (1 << 64) - 12345])
@pytest.mark.parametrize("kind, dim", [(CONSTANT, 3), (UNIFORM, 9), (NORMAL, 9), (TRUNCATED_NORMAL, 9), (POOL, 9),
                                       (NORMAL, 1)])
@pytest.mark.each_value
def test_initial_rows_have_the_bits_of_the_reference(kind, dim, seed):
    pool = RANDOM.randn(7, dim).astype(np.float32) if kind == POOL else None
    shape = TableShape(NO_TABLE, "table", dim, 1, seed, kind, *PARAMETERS, pool=pool)
    found = computed(lambda keys: stock_initial_rows.initial_rows(shape, keys), KEYS)
    wanted = [initial_rows.row(seed, kind, *PARAMETERS, key, dim, () if pool is None else pool)
              for key in KEYS.tolist()]
    assert found.tobytes() == np.array(wanted, np.float32).tobytes()
    assert computed(lambda keys: stock_initial_rows.initial_rows(shape, keys), KEYS[:0]).shape == (0, dim)


def test_quantiles_have_the_bits_of_the_reference_up_to_the_ends():
    """Random keys do not reach the polynomials of the tails, which begin below 1e-11."""
    least = 2.0 ** -53
    p = np.concatenate([least * 2.0 ** np.arange(52), 1 - least * 2.0 ** np.arange(1, 52), [0.075, 0.925, 0.5],
                        np.exp(-25.0) * np.array([0.999999, 1.000001])])
    wanted = np.array([initial_rows.inverse_normal(each) for each in p.tolist()])
    assert computed(stock_initial_rows._inverse_normal, p).tobytes() == wanted.tobytes()
    assert np.abs(wanted).max() > 8
