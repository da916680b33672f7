"""Where the ticket comes out of an iterator, and which stages may stand behind the submission.

An op with a number among its attributes stands for AscSubmit, so that nothing needs to run.
"""
import pytest
import tensorflow as tf

from ascpipe.tf.graph.dataset_graph import DatasetGraph, Marker

STAND_IN = Marker("RandomUniformInt", "seed2")


def submit(x, stream=5):
    return x, tf.random.uniform([], 0, 9, tf.int64, seed=stream)


def submit_other(x):
    return submit(x, 6)


def options():
    options = tf.data.Options()
    options.experimental_optimization.map_parallelization = True
    options.experimental_threading.private_threadpool_size = 2
    return options


def zipped(data):
    return tf.data.Dataset.zip((data, data.map(submit), {"other": data.map(submit_other)}))


GOOD = {
    "map as the last stage": (lambda d: d.map(submit), {1: 5}),
    "prefetch": (lambda d: d.map(submit).prefetch(2), {1: 5}),
    "take, skip, repeat and filter": (
        lambda d: d.map(submit).take(3).skip(1).repeat(2).filter(lambda x, t: x > 0).prefetch(2), {1: 5}),
    "batch, shuffle and cache before it": (lambda d: d.batch(2).shuffle(2).cache().map(submit), {1: 5}),
    "a parallel map before it": (lambda d: d.map(lambda x: x + 1, num_parallel_calls=2).map(submit), {1: 5}),
    "one call at a time": (lambda d: d.map(submit, num_parallel_calls=1).prefetch(2), {1: 5}),
    "zip": (zipped, {2: 5, 4: 6}),
    "a map that moves the ticket": (lambda d: d.map(submit).map(lambda x, t: (t, x + 1)), {0: 5}),
    "a call inside a function": (lambda d: d.map(tf.function(submit)), {1: 5}),
    "concatenate of the same": (lambda d: d.map(submit).concatenate(d.map(submit)), {1: 5}),
    "options": (lambda d: d.map(submit).with_options(options()), {1: 5}),
    "no submission at all": (lambda d: d.shuffle(2).batch(3), {}),
}

BAD = {
    "ParallelMapDataset": lambda d: d.map(submit, num_parallel_calls=2).prefetch(2),
    "ParallelMapDataset.*Remove num_parallel_calls, or set it to 1": lambda d: d.map(
        submit, num_parallel_calls=tf.data.experimental.AUTOTUNE),
    "MapAndBatchDataset": lambda d: d.apply(tf.data.experimental.map_and_batch(submit, 2)),
    "ShuffleDataset": lambda d: d.map(submit).shuffle(2).prefetch(2),
    "CacheDataset": lambda d: d.map(submit).cache(),
    "BatchDataset": lambda d: d.map(submit).batch(2),
    "PaddedBatchDataset": lambda d: d.map(submit).padded_batch(2, ([], [])),
    "InterleaveDataset": lambda d: d.interleave(lambda x: tf.data.Dataset.range(3).map(submit), 2),
    "ParallelInterleaveDataset": lambda d: d.map(submit).interleave(
        lambda x, t: tf.data.Dataset.from_tensors(x), 2, num_parallel_calls=2),
    "FlatMapDataset": lambda d: d.flat_map(lambda x: tf.data.Dataset.range(3).map(submit)),
    "ConcatenateDataset": lambda d: d.map(submit).concatenate(d.map(submit_other)),
    "WindowDataset": lambda d: d.map(submit).window(2),
    "drops the ticket": lambda d: d.map(submit).map(lambda x, t: x),
    "does not return the extra tensor": lambda d: d.map(lambda x: submit(x)[0]),
}

ITERATORS = [tf.compat.v1.data.make_initializable_iterator, tf.compat.v1.data.make_one_shot_iterator]


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def tickets(graph):
    datasets = DatasetGraph(graph, STAND_IN)
    (get_next,) = datasets.get_nexts()
    return datasets.tickets(get_next)


@pytest.mark.parametrize("iterator", ITERATORS)
@pytest.mark.parametrize("stages", GOOD)
@pytest.mark.each_value
def test_the_ticket_is_found_behind(stages, iterator, graph):
    make, expected = GOOD[stages]
    iterator(make(tf.data.Dataset.range(10))).get_next()
    assert tickets(graph) == expected


@pytest.mark.parametrize("iterator", ITERATORS)
@pytest.mark.parametrize("stage", BAD)
@pytest.mark.each_value
def test_a_stage_that_breaks_the_order_is_named(stage, iterator, graph):
    iterator(BAD[stage](tf.data.Dataset.range(10))).get_next()
    with pytest.raises(ValueError, match=stage):
        tickets(graph)


def test_an_iterator_without_its_initializer_has_no_datasets_yet(graph):
    data = tf.data.Dataset.range(3).map(submit)
    iterator = tf.compat.v1.data.Iterator.from_structure(
        tf.compat.v1.data.get_output_types(data), tf.compat.v1.data.get_output_shapes(data))
    iterator.get_next()
    assert tickets(graph) == {}
    iterator.make_initializer(data)
    assert tickets(graph) == {1: 5}


def test_an_iterator_over_datasets_of_two_streams_is_refused(graph):
    data = tf.data.Dataset.range(3)
    iterator = tf.compat.v1.data.Iterator.from_structure(
        (tf.int64, tf.int64), (tf.TensorShape([]), tf.TensorShape([])))
    iterator.get_next()
    iterator.make_initializer(data.map(submit))
    iterator.make_initializer(data.map(submit_other))
    with pytest.raises(ValueError, match="E266: .*different insert functions"):
        tickets(graph)


def test_the_ticket_tensor_is_an_output_of_get_next(graph):
    get_next = tf.compat.v1.data.make_one_shot_iterator(tf.data.Dataset.range(3).map(submit)).get_next()
    datasets = DatasetGraph(graph, STAND_IN)
    assert datasets.ticket_of(5, get_next[0].op) is get_next[1]
    assert datasets.ticket_of(6, get_next[0].op) is None


AHEAD = {
    "nothing": (lambda d: d.map(submit), 0),
    "a prefetch before the submission": (lambda d: d.prefetch(7).map(submit), 0),
    "one behind it": (lambda d: d.map(submit).prefetch(7), 7),
    "two behind it": (lambda d: d.map(submit).prefetch(7).repeat().take(9).prefetch(2), 9),
    "one behind zip": (lambda d: tf.data.Dataset.zip((d.prefetch(50), d.map(submit).prefetch(3))).prefetch(4), 7),
    "the shorter of two": (lambda d: d.map(submit).prefetch(3).concatenate(d.map(submit).prefetch(5)), 3),
    "options": (lambda d: d.map(submit).prefetch(3).with_options(options()), 3),
    "TensorFlow's choice": (lambda d: d.map(submit).prefetch(tf.data.experimental.AUTOTUNE).prefetch(2), None),
}


@pytest.mark.parametrize("iterator", ITERATORS)
@pytest.mark.parametrize("stages", AHEAD)
@pytest.mark.each_value
def test_how_far_batches_are_read_ahead_is_known_for(stages, iterator, graph):
    make, expected = AHEAD[stages]
    get_next = iterator(make(tf.data.Dataset.range(10))).get_next()
    datasets = DatasetGraph(graph, STAND_IN)
    assert datasets.run_ahead(tf.nest.flatten(get_next)[0].op) == expected


def test_a_size_that_is_computed_is_not_known(graph):
    size = tf.compat.v1.placeholder(tf.int64, [])
    data = tf.data.Dataset.range(10).map(submit).prefetch(size)
    get_next = tf.compat.v1.data.make_initializable_iterator(data).get_next()
    assert DatasetGraph(graph, STAND_IN).run_ahead(get_next[0].op) is None
