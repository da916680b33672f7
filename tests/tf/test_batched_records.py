"""Programs that parse records one by one and then batch them return the same batches, and parse whole batches."""
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ascpipe.tf as asc
from ascpipe.tfops import load
from tests.support import tree
from tests.support.covering import example_count
from tests.support.tensorflows import IS_TENSORFLOW_1

v1 = tf.compat.v1
pytestmark = pytest.mark.timeout_s(240)

SPECS = {"label": tf.io.FixedLenFeature([], tf.float32), "dense": tf.io.FixedLenFeature([3], tf.float32),
         "user": tf.io.FixedLenFeature([1], tf.int64), "item": tf.io.FixedLenFeature([], tf.int64, 7),
         "text": tf.io.FixedLenFeature([], tf.string)}
SPARSE = {"items": tf.io.VarLenFeature(tf.int64), "words": tf.io.VarLenFeature(tf.string)}


def record(number):
    def feature(**given):
        return tf.train.Feature(**given)
    values = {"label": feature(float_list=tf.train.FloatList(value=[number / 7])),
              "dense": feature(float_list=tf.train.FloatList(value=[number + .1, -number / 3, number * 1e10])),
              "user": feature(int64_list=tf.train.Int64List(value=[number * 31])),
              "text": feature(bytes_list=tf.train.BytesList(value=[b"%d" % (number * 3)])),
              "items": feature(int64_list=tf.train.Int64List(value=range(number % 4))),
              "words": feature(bytes_list=tf.train.BytesList(value=[b"w%d" % number] * (number % 3)))}
    if number % 2:
        values["item"] = feature(int64_list=tf.train.Int64List(value=[number]))
    return tf.train.Example(features=tf.train.Features(feature=values)).SerializeToString()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two TFRecord files of 30 and 23 records, and a text file."""
    folder = tmp_path_factory.mktemp("records")
    paths = [str(folder / name) for name in ("a.tfrecord", "b.tfrecord")]
    for path, numbers in zip(paths, (range(30), range(30, 53))):
        with tf.io.TFRecordWriter(path) as writer:
            for number in numbers:
                writer.write(record(number))
    text = folder / "lines.csv"
    text.write_text("label,user,text\n" + "".join(
        "{},{},\"a,{}\"\n".format(number / 3, number * 5, number) for number in range(41)))
    return paths, str(text)


def parsing(specs):
    return lambda serialized: v1.io.parse_single_example(serialized, specs)


def batches_of(create, fast, one_shot=False, count=None):
    """Return all batches of a dataset, and the ops of the executed graph and its functions."""
    os.environ["ASCPIPE_FAST_INPUT"] = "1" if fast else "0"
    load.load()
    try:
        with tf.Graph().as_default() as graph:
            v1.set_random_seed(5)
            dataset = create()
            iterator = (v1.data.make_one_shot_iterator if one_shot else v1.data.make_initializable_iterator)(dataset)
            batch = iterator.get_next()
            with v1.Session(graph=graph) as session:
                metadata, options = v1.RunMetadata(), v1.RunOptions(output_partition_graphs=True)
                if not one_shot:
                    session.run(iterator.initializer, options=options, run_metadata=metadata)
                found = []
                while count is None or len(found) < count:
                    try:
                        found.append(session.run(batch, options=options if one_shot else None,
                                                 run_metadata=metadata if one_shot else None))
                    except tf.errors.OutOfRangeError:
                        break
        return found, metadata.partition_graphs
    finally:
        del os.environ["ASCPIPE_FAST_INPUT"]


def plain(batches):
    return [[(array.dtype.str, array.shape, array.tolist() if array.dtype == object else array.tobytes())
             for array in map(np.asarray, tf.nest.flatten(batch, expand_composites=False))
             ] if not any(isinstance(part, v1.SparseTensorValue) for part in tf.nest.flatten(batch))
            else [[np.asarray(inner).tolist() for inner in part] if isinstance(part, v1.SparseTensorValue)
                  else np.asarray(part).tolist() for part in tf.nest.flatten(batch)]
            for batch in batches]


def require_same(create, one_shot=False):
    """The batches are equal with and without ascpipe's input."""
    theirs, _ = batches_of(create, False, one_shot)
    ours, graphs = batches_of(create, True, one_shot)
    assert len(theirs) > 1
    assert plain(ours) == plain(theirs)
    return graphs


def runs_each(graphs):
    """Return True if the map of batches runs ops for each record."""
    names = [node.attr["f"].func.name for graph in graphs for node in graph.node if "_of_batches_" in
             node.attr["f"].func.name]
    assert names
    return any("_and_elements_" in name for name in names)


def inputs_of_batches(graphs):
    """Types of the datasets that a batch reads, and of those that read a batch."""
    types = {node.name: node.op for graph in graphs for node in graph.node}
    pairs = [(types[node.input[0].partition(":")[0]], node.op) for graph in graphs for node in graph.node
             if node.op.endswith("DatasetV2") or node.op.endswith("Dataset") and node.input]
    return [source for source, op in pairs if op.startswith("Batch")], [op for source, op in pairs
                                                                       if source.startswith("Batch")]


def records(paths):
    return tf.data.TFRecordDataset(paths)


@pytest.mark.parametrize("one_shot", [False, True], ids=["initializable", "one-shot"])
@pytest.mark.parametrize("chain", [
    lambda d, p: d.map(p).batch(8),
    lambda d, p: d.map(p, num_parallel_calls=3).shuffle(20, seed=3).repeat(2).batch(8, drop_remainder=True).prefetch(2),
    lambda d, p: d.shuffle(20).map(p).repeat(2).batch(7),
    lambda d, p: d.map(p, num_parallel_calls=-1).shuffle(20).repeat(2).batch(7),
    lambda d, p: d.map(p).skip(3).take(30).prefetch(4).shuffle(9, seed=1, reshuffle_each_iteration=False).repeat(2)
    .batch(4),
    lambda d, p: d.map(p).apply(tf.data.experimental.shuffle_and_repeat(13, 3, seed=2)).batch(6),
        lambda d, p: d.map(p).map(lambda parsed: (parsed["dense"] * 2., parsed["label"])).batch(5),
])
@pytest.mark.each_value
def test_datasets_of_programs(files, chain, one_shot):
    graphs = require_same(lambda: chain(records(files[0]), parsing(SPECS)), one_shot)
    if not one_shot:  # the graph of a one-shot iterator has the datasets in a function
        before, after = inputs_of_batches(graphs)
        assert before[0] not in ("MapDataset", "ParallelMapDataset", "ParallelMapDatasetV2")
        assert after[0] in ("MapDataset", "ParallelMapDataset", "ParallelMapDatasetV2")
        assert not runs_each(graphs)


def reshaped(parsed):
    return {"a": tf.reshape(parsed["dense"], [-1]), "b": tf.reshape(parsed["label"], [1, 1]),
            "c": tf.expand_dims(parsed["user"], 0), "d": tf.expand_dims(parsed["user"], -1),
            "e": tf.squeeze(parsed["user"], [0]), "f": tf.squeeze(parsed["user"], [-1])}


def sliced(parsed):
    first, *rest = tf.unstack(parsed["dense"])
    return (parsed["dense"][1:], parsed["dense"][0], parsed["dense"][None, ::-1], parsed["dense"][..., -1], first, rest,
            tf.split(parsed["dense"], 3), parsed["dense"][1, None])


def joined(parsed):
    user = tf.cast(parsed["user"], tf.float32)
    return (tf.concat([parsed["dense"], user], 0), tf.concat([user, parsed["dense"]], axis=-1),
            tf.stack([parsed["item"], parsed["user"][0]]), tf.stack([user, user], axis=1),
            tf.strings.join(["u_", parsed["text"], tf.as_string(parsed["item"])]))


def computed(parsed):
    return {"clicked": tf.cast(parsed["label"] > 2.5, tf.int32), "scaled": (parsed["dense"] - [1., 2., 3.]) / 7.,
            "hashed": tf.strings.to_hash_bucket_fast(parsed["text"], 1000), "bit": tf.one_hot(parsed["item"] % 5, 5),
            "number": tf.strings.to_number(parsed["text"]),
            "both": tf.logical_and(parsed["item"] > 3, parsed["label"] < 9.),
            "chosen": v1.where(parsed["label"] > 2., parsed["label"], parsed["label"] + 1.),
            "least": tf.minimum(parsed["item"], 20), "mod": tf.math.floormod(parsed["user"], [7])}


def by_element(parsed):
    """No op of this function has a rule; one of its results is a constant."""
    return (tf.math.log(parsed["dense"] + 100.), tf.reduce_sum(parsed["dense"]), tf.constant([1, 2]),
            tf.strings.split([parsed["text"]], "1").values[:1] if IS_TENSORFLOW_1 else parsed["user"],
            tf.shape(parsed["dense"]), tf.exp(tf.cast(parsed["user"], tf.float32) / 1e3) + parsed["label"])


def mixed(parsed):
    label = parsed.pop("label")
    # TensorFlow 2.15 sums in another order if it replaces MatMul by an op of oneDNN. Sums with zeros are exact.
    weight = tf.constant([[1., 2.], [3., 4.], [5., 6.]] if IS_TENSORFLOW_1 else [[1., 2.], [0., 0.], [0., 0.]])
    return parsed, (label, tf.matmul(parsed["dense"][None], weight), tf.clip_by_value(label, 0., 3.))


@pytest.mark.parametrize("function, each", [
    (reshaped, False), (sliced, False), (joined, False), (computed, False), (by_element, True), (mixed, True),
    (lambda parsed: tf.cond(parsed["label"] > 3., lambda: parsed["dense"], lambda: -parsed["dense"]), True)],
    ids=["reshaped", "sliced", "joined", "computed", "by element", "mixed", "cond"])
def test_functions_of_programs(files, function, each):
    graphs = require_same(lambda: records(files[0]).map(lambda record: function(parsing(SPECS)(record))).batch(6))
    assert runs_each(graphs) == each
    graphs = require_same(lambda: records(files[0]).map(parsing(SPECS)).map(function).batch(6))  # a map of its own
    assert runs_each(graphs) == each


def test_values_from_outside_of_the_function(files):
    def create():
        scale, table = tf.constant(3.5), tf.constant([1., 2., 3.])
        return records(files[0]).map(lambda record: (
            parsing(SPECS)(record)["dense"] * table, parsing(SPECS)(record)["label"] * scale)).batch(6)
    assert runs_each(require_same(create))  # the rule of Mul needs the shape, which the function does not know


def test_sparse_features(files):
    require_same(lambda: records(files[0]).map(parsing({**SPECS, **SPARSE})).shuffle(9, seed=1).batch(6))
    require_same(lambda: records(files[0]).map(parsing(SPARSE)).batch(60 // 2, drop_remainder=True).repeat(3))


def test_batches_of_batches(files):
    before, after = inputs_of_batches(require_same(
        lambda: records(files[0]).map(parsing(SPECS)).batch(5).batch(2, drop_remainder=True)))
    assert sorted(map(str, before))[0] == "FlatMapDataset" and "MapDataset" in after


def test_lines(files):
    def create():
        lines = tf.data.TextLineDataset(files[1]).skip(1)
        parsed = lines.map(lambda line: v1.io.decode_csv(line, [[0.], tf.constant([], tf.int64), [""]]))
        return parsed.shuffle(8, 1).batch(9)
    before, after = inputs_of_batches(require_same(create))
    assert before[0].startswith("Shuffle") and after[0].endswith("MapDataset")


# ---- datasets that stay as they are

def numpy_double(values):
    return values * 2


# name of a case: dataset, and what the log says
STAYS = {
    "cache": (lambda d, p: d.map(p).cache().batch(8),
              "because of 'CacheDataset': it is between the map and the batch"),
    "filter": (lambda d, p: d.map(p).filter(lambda parsed: parsed["label"] > 1.).batch(8),
               "because of 'FilterDataset': it is between the map and the batch"),
    "py_func": (lambda d, p: d.map(lambda record: v1.py_func(numpy_double, [p(record)["dense"]], tf.float32)).batch(8),
                ": it contains the stateful op 'PyFunc'"),
    "random": (lambda d, p: d.map(lambda record: p(record)["label"] + tf.random.uniform([], seed=1)).batch(8),
               ": it contains the stateful op 'random_uniform/RandomUniform'"),
    "loop": (lambda d, p: d.map(lambda record: tf.while_loop(
        lambda x: x < 9., lambda x: x + 1., [p(record)["label"]])).batch(8), ": it contains "),
    "sparse values": (lambda d, p: d.map(lambda record: v1.io.parse_single_example(record, SPARSE)["items"].values[:0])
                      .batch(8), ": it uses a feature of variable length"),
    "sequence": (lambda d, p: d.take(1).map(lambda record: v1.io.parse_single_example(record, {
        "user": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True)})).repeat(9).batch(8),
                 ": it uses a feature of variable length"),
    "shared shuffle": (lambda d, p: both_halves(d.map(p).shuffle(9, seed=1)),
                       "because of 'ShuffleDataset': several datasets read what it shuffles"),
}


def both_halves(dataset):
    return dataset.take(20).batch(4).concatenate(dataset.skip(20).batch(4))


@pytest.fixture(scope="module")
def logs(files):
    """What TensorFlow logs for each of the datasets that stay as they are."""
    code = "from tests.tf.test_batched_records import run_all; run_all({!r})".format(files[0])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200, check=False,
                          env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "0"}, cwd=str(tree.ROOT))
    assert done.returncode == 0, done.stderr
    return dict(part.split("\n", 1) for part in done.stderr.split("case: ")[1:])


def run_all(paths):
    for name, (chain, _) in STAYS.items():
        sys.stderr.write("case: {}\n".format(name))
        theirs, _ = batches_of(lambda chain=chain: chain(records(paths), parsing(SPECS)), False)
        ours, _ = batches_of(lambda chain=chain: chain(records(paths), parsing(SPECS)), True)
        assert plain(ours) == plain(theirs) and theirs, name


@pytest.mark.parametrize("case", list(STAYS))
def test_the_log_says_why_records_are_parsed_one_by_one(logs, case):
    why = STAYS[case][1]
    said = [line for line in logs[case].splitlines() if "ascpipe: " in line]
    if case == "loop" and not IS_TENSORFLOW_1:  # a loop of TensorFlow 2 is one op
        assert len(said) == 1 and "these ops run for each record: Identity, StatelessWhile" in said[0]
        return
    assert len(said) == 1 and "records are parsed one by one, which is much slower than in batches" in said[0]
    assert why in said[0] or not IS_TENSORFLOW_1


def test_an_argument_of_init_switches_it_off(monkeypatch):
    monkeypatch.setenv("ASCPIPE_FAST_INPUT", "1")
    with pytest.raises(ValueError, match="fast_input"):
        asc.init(fast_input="no")
    asc.init(fast_input=False)
    asc.shutdown()
    assert os.environ["ASCPIPE_FAST_INPUT"] == "0"
    asc.init()
    asc.shutdown()
    assert os.environ["ASCPIPE_FAST_INPUT"] == "0"


# ---- records that are damaged, and functions of any kind

def test_a_damaged_record_is_the_same_kind_of_error(tmp_path):
    path = str(tmp_path / "damaged.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for number in range(12):
            writer.write(b"not an example" if number == 5 else record(number))

    def first_error(fast):
        with pytest.raises(tf.errors.OpError) as caught:
            batches_of(lambda: records(path).map(parsing(SPECS)).batch(4), fast)
        return type(caught.value)
    assert first_error(True) is first_error(False) is tf.errors.InvalidArgumentError


FLOATS = [0., -0., 1., -1.5, 3e38, -3e38, 1e-38, -1e-38, 1e-45, -3e-44, np.inf, -np.inf, np.nan, 2. ** 31,
          -2. ** 63, 16777217.]
EXACT = {
    "comparisons": lambda x, y: (x > y, x >= y, x < y, x <= y, tf.equal(x, y), tf.not_equal(x, y)),
    "sums": lambda x, y: (x + y, x - y, tf.abs(x), x + 1e-38, 1. - x),
    "products": lambda x, y: (x * y, x / y, x * 1e-30, x * x, x / 3.),
    "casts": lambda x, y: (tf.cast(x, tf.float64), tf.cast(x > 0., tf.float32), tf.as_string(x), tf.zeros_like(x)),
    "choices": lambda x, y: (v1.where(x > y, x, y), v1.where(tf.logical_or(x > 0., y > 0.), y, x)),
    "integers": lambda x, y: tuple(tf.cast(tf.clip_by_value(x, -9., 9.), tf.int32) // number for number in (2, 3, -4)),
}


@pytest.mark.parametrize("name", list(EXACT))
def test_floats_of_any_kind(name, tmp_path):
    path = str(tmp_path / "floats.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for x in FLOATS:
            for y in FLOATS:
                values = tf.train.Feature(float_list=tf.train.FloatList(value=[x, y]))
                writer.write(tf.train.Example(features=tf.train.Features(feature={"xy": values})).SerializeToString())

    def create():
        def function(serialized):
            specs = {"xy": tf.io.FixedLenFeature([2], tf.float32)}
            return EXACT[name](*tf.unstack(v1.io.parse_single_example(serialized, specs)["xy"]))
        return records(path).map(function).batch(64)
    assert runs_each(require_same(create)) == (name == "integers")


UNARY = [lambda x: tf.cast(x, tf.int64), tf.negative, lambda x: x > 2., lambda x: tf.one_hot(tf.cast(x, tf.int32), 3),
         tf.as_string, tf.identity, lambda x: tf.reshape(x, [-1]), lambda x: tf.expand_dims(x, 0), tf.exp, tf.shape,
         lambda x: tf.expand_dims(x, -1), tf.reduce_max, tf.zeros_like, lambda x: x / 3., lambda x: [1., 2., 3.] * x,
         lambda x: tf.reshape(x, [1, -1]), lambda x: x[..., None], lambda x: tf.stack([x, x], -1), tf.abs,
         lambda x: tf.concat([[1.], tf.reshape(x, [-1])], 0), lambda x: tf.minimum(x, 2.), lambda x: tf.constant([7])]


@settings(max_examples=example_count(10, 100), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.sampled_from(["dense", "label"]), st.lists(st.integers(0, len(UNARY) - 1), max_size=4)),
                min_size=1, max_size=4), st.integers(1, 9))
def test_random_functions(files, results, size):
    """Results that TensorFlow cannot compute for one record are left out."""
    def function(parsed):
        found = []
        for name, ops in results:
            value = parsed[name]
            for op in ops:
                try:
                    value = UNARY[op](value)
                except (TypeError, ValueError):
                    continue
            found.append(value)
        return tuple(found)
    theirs, _ = batches_of(lambda: records(files[0]).map(lambda r: function(parsing(SPECS)(r))).batch(size), False)
    ours, _ = batches_of(lambda: records(files[0]).map(lambda r: function(parsing(SPECS)(r))).batch(size), True)
    assert plain(ours) == plain(theirs)
