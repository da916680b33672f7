"""Lookups that wait for an update of their table in the same step, after which TensorFlow reads the updated rows."""
import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.errors import TableLookupError
from tests.tf import programs, twin_programs

v1 = tf.compat.v1
IDS = np.arange(24) % 7


def batches(spec=None):
    data = tf.data.Dataset.from_tensor_slices({"user": IDS}).batch(4)
    data = data if spec is None else data.map(asc.insert_function(spec))
    iterator = v1.data.make_initializable_iterator(data.prefetch(2))
    return iterator, iterator.get_next()


def program(wait_for, *, features=False, name="user"):
    """Trains 'user', and looks table ``name`` up within the control dependencies that ``wait_for(train, loss)`` gives.

    Returns iterators, the train op and what the second lookup finds.
    """
    tables = {each: asc.create_table(each, 2, device_vocabulary_size=20, initializer=v1.constant_initializer(0.5))
              for each in ("user", "item")}
    spec = asc.FeatureSpec("user") if features else None
    iterator, batch = batches(spec)
    rows = asc.sparse_lookup(tables["user"], spec or batch["user"], **({"batch": batch} if features else {}))
    loss = tf.reduce_sum(tf.square(rows))
    train = asc.optimizers.GradientDescent(0.1).minimize(loss)
    if features:
        iterators = [iterator]
        with wait_for(train, loss):
            found = asc.sparse_lookup(tables["user"], spec, batch=batch)
    else:
        other, testing = batches()
        iterators = [iterator, other]
        with wait_for(train, loss):
            found = asc.sparse_lookup(tables[name], testing["user"], training=False)
    return iterators, train, tf.reduce_sum(found)


def after_training(train, loss):
    return tf.control_dependencies([train])


def after_more(train, loss):
    with tf.control_dependencies([train]):
        step = tf.identity(loss)
    return tf.control_dependencies([step])


def before_training(train, loss):
    return tf.control_dependencies([loss])


@pytest.mark.parametrize("features", [False, True], ids=["tensor", "feature"])
@pytest.mark.parametrize("wait_for", [after_training, after_more])
def test_a_lookup_that_waits_for_an_update_of_its_table_is_refused(wait_for, features):
    with twin_programs.ascpipe():
        program(wait_for, features=features)
        with pytest.raises(TableLookupError, match="E267: Table 'user' is looked up after op '.*', which updates the "
                                                   "table in the same step.*Nothing was trained.*session.run"):
            asc.start()
            with programs.session() as run:
                run.run(v1.global_variables_initializer())


@pytest.mark.parametrize("wait_for, name", [(before_training, "user"), (after_training, "item")])
def test_a_lookup_that_waits_for_other_ops_is_not_refused(wait_for, name):
    with twin_programs.ascpipe():
        iterators, train, found = program(wait_for, name=name)
        asc.start()
        with programs.session() as run:
            run.run([v1.global_variables_initializer(), *(each.initializer for each in iterators)])
            assert run.run([found, train])[0] == 4
