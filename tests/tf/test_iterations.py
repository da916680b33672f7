"""Several training iterations in one session run, as on an Ascend card."""
import pytest
import tensorflow as tf

from ascpipe.tf.incumbent.ascend.iterations import set_iteration_per_loop
from tests.tf import programs


@pytest.fixture(params=[False, True], ids=["reference", "resource"])
def counted(request):
    """Return a session, an op that trains one iteration, and the counter of iterations."""
    with tf.Graph().as_default(), programs.session() as session:
        done = tf.compat.v1.Variable(0, use_resource=request.param)
        train = tf.compat.v1.assign_add(done, 1)
        session.run(done.initializer)
        yield session, train, done


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_run_trains_as_many_iterations_as_it_was_told(count, counted):
    session, train, done = counted
    loop = set_iteration_per_loop(session, train, count)
    for runs in (1, 2):
        session.run(loop)
        assert session.run(done) == runs * count


def test_a_run_returns_the_values_of_its_last_iteration(counted):
    session, train, _ = counted
    loop = set_iteration_per_loop(session, train, 4)
    with tf.control_dependencies([loop]):
        value = tf.identity(train) * 10
    assert session.run(value) == 40


def test_an_op_that_needs_no_iterations_runs_once(counted):
    session, train, done = counted
    set_iteration_per_loop(session, train, 3)
    assert session.run(train) == 1
    assert session.run(done) == 1


def test_several_iterations_end_with_the_data(counted):
    session, _, done = counted
    data = tf.compat.v1.data.make_one_shot_iterator(tf.data.Dataset.range(7)).get_next()
    with tf.control_dependencies([data]):
        loop = set_iteration_per_loop(session, tf.compat.v1.assign_add(done, 1), 5)
    session.run(loop)
    with pytest.raises(tf.errors.OutOfRangeError):
        session.run(loop)
    assert session.run(done) == 7
