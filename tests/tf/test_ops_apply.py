"""The ops that update rows, in variables and by handle, against their twin."""
import numpy as np
import pytest
import tensorflow as tf

from ascpipe.tf.running import native
from tests.support.fake_daemon import FakeDaemon
from tests.support.op_graph import (
    DIM,
    SLOT_INITIAL,
    build,
    expansion_shape,
    first_row,
    handle,
    home_row,
    session,
    stream_shape,
)
from tests.tf import formulas

ROWS, UPDATED = 3000, 2000
SESSION = {"use_per_session_threads": True}
FTRL = {"rate": 0.05, "l1": 0.01, "l2": 0.02, "l2_shrinkage": 0.0, "power": -0.5}
#: (op, twin, states, numbers)
RULES = {
    "gradient descent": ("gradient_descent", formulas.gradient_descent, 1, {"rate": 0.05, "weight_decay": 0.0}),
    "decay": ("gradient_descent", formulas.gradient_descent, 1, {"rate": 0.05, "weight_decay": 0.01}),
    "adagrad": ("adagrad", formulas.adagrad, 2, {"rate": 0.05}),
    "lazy adam": ("lazy_adam", formulas.lazy_adam, 3, {
        "rate": 0.001, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "beta1_power": 0.81, "beta2_power": 0.998}),
    "ftrl": ("ftrl", formulas.ftrl, 3, FTRL),
    "ftrl with shrinkage": ("ftrl", formulas.ftrl, 3, {**FTRL, "l2_shrinkage": 0.1}),
    "ftrl with a power": ("ftrl", formulas.ftrl, 3, {**FTRL, "power": -0.3}),
}
NAMES = {"gradient_descent": ["rows"], "adagrad": ["rows", "accumulator"], "lazy_adam": ["rows", "m", "v"],
         "ftrl": ["rows", "accum", "linear"]}


def float32(numbers):
    return {name: np.float32(value) for name, value in numbers.items()}


def first_states(op, shape, random):
    """Values of the states: that of a root is positive."""
    rows, *slots = [random.randn(*shape).astype(np.float32) for _ in NAMES[op]]
    roots = {"adagrad": 0, "lazy_adam": 1, "ftrl": 0}
    return [rows, *(np.abs(slot) + np.float32(0.1) if place == roots[op] else slot for place, slot in enumerate(slots))]


@pytest.mark.parametrize("rule", RULES)
def test_rows_have_the_bits_of_the_twin_at_any_dim_place_index_type_and_number_of_threads(rule):
    op, twin, count, numbers = RULES[rule]
    random = np.random.RandomState(1)
    cases = []
    with tf.Graph().as_default():
        for number, dim in enumerate([1, 3, 8, 16, 20, 32, 64, 128]):
            shape = (ROWS, dim) if dim != 20 else (ROWS, 4, 5)
            states = first_states(op, shape, random)
            assert len(states) == count
            indices = random.permutation(ROWS)[:UPDATED].astype([np.int32, np.int64][number % 2])
            grad = random.randn(UPDATED, *shape[1:]).astype(np.float32)
            variables = [tf.compat.v1.Variable(value, use_resource=False) for value in states]
            update = getattr(native.ops(), "asc_apply_" + op)(
                grad=grad, indices=indices, use_locking=number % 2 == 0, **dict(zip(NAMES[op], variables)), **numbers)
            cases.append((states, indices, grad, variables, update))
        for threads in (1, 4):
            config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=threads, **SESSION)
            with tf.compat.v1.Session(config=config) as running:
                running.run(tf.compat.v1.global_variables_initializer())
                running.run([update for *_, update in cases])
                found = running.run([variables for *_, variables, _ in cases])
            for (states, indices, grad, _, _), after in zip(cases, found):
                expected = [state.copy() for state in states]
                updated = [state[indices] for state in expected]
                twin(updated, grad, **float32(numbers))
                for state, value in zip(expected, updated):
                    state[indices] = value
                for ours, theirs in zip(after, expected):
                    assert ours.tobytes() == theirs.tobytes(), ours.shape


def test_one_row_updated_alone_has_the_bits_that_it_has_among_others():
    random = np.random.RandomState(2)
    values, grad = first_states("lazy_adam", (ROWS, 16), random), random.randn(ROWS, 16).astype(np.float32)
    numbers = RULES["lazy adam"][3]
    with tf.Graph().as_default(), tf.compat.v1.Session() as running:
        def updated(indices):
            variables = [tf.compat.v1.Variable(value, use_resource=False) for value in values]
            update = native.ops().asc_apply_lazy_adam(
                *variables, grad=grad[indices], indices=indices, **numbers)
            running.run([variable.initializer for variable in variables])
            running.run(update)
            return running.run(variables[0])

        together = updated(np.arange(ROWS))
        for row in (0, 7, ROWS - 1):
            assert updated(np.array([row]))[row].tobytes() == together[row].tobytes()


def refused(text, *, rate=0.1, grad=((1.0, 1.0),), indices=(1,)):
    """An update by Adagrad is refused and changes nothing."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as running:
        rows = tf.compat.v1.Variable(tf.ones([4, 2]), use_resource=False)
        accumulator = tf.compat.v1.Variable(tf.ones([4, 2]), use_resource=False)
        feeds = [tf.compat.v1.placeholder(kind) for kind in (tf.float32, tf.float32, tf.int32)]
        update = native.ops().asc_apply_adagrad(rows, accumulator, *feeds)
        running.run(tf.compat.v1.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match=text + ".*Nothing was updated"):
            running.run(update, dict(zip(feeds, (rate, grad, indices))))
        assert (running.run(rows) == 1).all() and (running.run(accumulator) == 1).all()


def test_a_bad_row_is_named_before_any_row_is_changed():
    grad = [[1.0, 1.0]] * 2
    refused(r"row 4 at index 1 is outside \[0, 4\)", indices=[1, 4], grad=grad)
    refused(r"row -1 at index 1 is outside \[0, 4\)", indices=[1, -1], grad=grad)


def test_shapes_that_do_not_go_together_are_refused():
    refused(r"the gradient has shape \[1,3\], expected \[1,2\]", grad=[[1.0, 1.0, 1.0]])
    refused(r"indices have shapes \[4,2\] and \[1,1\]", indices=[[1]])
    refused(r"has shape \[1\], expected a scalar", rate=[0.1])


def test_a_rate_of_zero_is_refused_by_ftrl():
    with tf.Graph().as_default(), tf.compat.v1.Session() as running:
        states = [tf.compat.v1.Variable(tf.ones([4, 2]), use_resource=False) for _ in range(3)]
        update = native.ops().asc_apply_ftrl(*states, grad=[[1.0, 1.0]], indices=[1], **{**FTRL, "rate": 0.0})
        running.run(tf.compat.v1.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match="FTRL cannot update with rate 0, .*Nothing was"):
            running.run(update)


def test_no_row_at_all_is_no_error():
    with tf.Graph().as_default(), tf.compat.v1.Session() as running:
        rows = tf.compat.v1.Variable(tf.ones([4, 2]), use_resource=False)
        update = native.ops().asc_apply_gradient_descent(
            rows, rate=1.0, weight_decay=0.0, grad=tf.zeros([0, 2]), indices=tf.zeros([0], tf.int64))
        running.run(tf.compat.v1.global_variables_initializer())
        running.run(update)
        assert (running.run(rows) == 1).all()


# ---- by handle -----------------------------------------------------------------------------------------------

TRAIN = stream_shape()
KEYS = 600


@pytest.mark.parametrize("rule", ["decay", "adagrad", "lazy adam"])
def test_home_rows_have_the_bits_of_the_twin_and_their_neighbours_stay(rule):
    op, twin, count, numbers = RULES[rule]
    twin = formulas.adagrad_by_address if op == "adagrad" else twin
    table = expansion_shape(home_rows=KEYS)._replace(row_floats=3 * DIM)
    grad = np.random.RandomState(3).randn(KEYS, DIM).astype(np.float32)
    with FakeDaemon([table], [TRAIN], arena_bytes=1 << 18) as daemon:
        graph = build([list(range(KEYS))], [TRAIN], [table])
        with graph.graph.as_default():
            handles = tf.concat([graph.channels[0].locals[0].handles[:400], tf.zeros([200], tf.int64)], 0)
            update = getattr(native.ops(), "asc_apply_{}_by_address".format(op))(handles=handles, grad=grad, **numbers)
        with session(graph, threads=4) as opened:
            opened.run(update)
        slots = np.full(2 * DIM, SLOT_INITIAL, np.float32)
        expected = np.array([np.concatenate([first_row(table, key), slots]) for key in range(KEYS)])
        states = [expected[:400, place * DIM:(place + 1) * DIM] for place in range(count)]
        twin(states, grad[:400], **float32(numbers))
        assert daemon.tables[0].home[:KEYS].tobytes() == expected.tobytes()


@pytest.mark.parametrize(("handles", "grad", "text"), [
    ([handle(0, 2, 0)], np.zeros((1, DIM + 1)), "10 floats of each row of table 'table0', which has 8"),
    ([handle(0, 2, 0)], np.zeros((1, DIM - 1)), "gradient has rows of 3 floats for table .table0., which has dim 4"),
    ([handle(0, 2, 0)], np.zeros((2, DIM)), r"the gradient has shape \[2,4\] for 1 handles, expected \[1, dim\]"),
    ([handle(0, 2, 0), handle(0, 3, 0)], np.zeros((2, DIM)), "at index 1 .*step 3.* was not made by the step"),
])
def test_handles_and_gradients_that_do_not_fit_change_nothing(handles, grad, text):
    table = expansion_shape()
    with FakeDaemon([table], [TRAIN]) as daemon:
        graph = build([[1]], [TRAIN], [table])
        with graph.graph.as_default():
            names, values = tf.compat.v1.placeholder(tf.int64), tf.compat.v1.placeholder(tf.float32)
            with tf.control_dependencies([graph.channels[0].plans[0].slots]):
                update = native.ops().asc_apply_adagrad_by_address(names, values, 0.1)
        with session(graph) as opened:
            with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.FailedPreconditionError), match=text):
                opened.run(update, {names: handles, values: grad})
            assert np.array_equal(daemon.tables[0].home[0], home_row(table, 1))
