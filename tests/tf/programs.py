"""Small training programs, the same with tables and with plain variables, for the end-to-end tests."""
import contextlib
import functools
import itertools

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import rewriter_config_pb2

from ascpipe.tf.running.process import Process
from mx_rec.constants.constants import ASCEND_SPARSE_LOOKUP_ID_OFFSET, ASCEND_SPARSE_LOOKUP_LOCAL_EMB
from mx_rec.core.asc import FeatureSpec, get_asc_insert_func, start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.optimizers import (
    adagrad,
    adagrad_by_addr,
    ftrl,
    gradient_descent,
    gradient_descent_by_addr,
    lazy_adam,
    lazy_adam_by_addr,
)
from mx_rec.util.initialize import get_use_dynamic_expansion, init, terminate_config_initializer

KEYS = 40
DIM = 4
MOST_SHAPES = 6  #: of consecutive batches of a dataset, each of which is two ops of the graph
OPTIMIZERS = {
    "adagrad": adagrad.create_hash_optimizer, "ftrl": ftrl.create_hash_optimizer,
    "gradient_descent": gradient_descent.create_hash_optimizer, "lazy_adam": lazy_adam.create_hash_optimizer}
BY_ADDRESS = {
    "adagrad": adagrad_by_addr.create_hash_optimizer_by_address,
    "gradient_descent": functools.partial(gradient_descent_by_addr.create_hash_optimizer_by_addr, weight_decay=0.0),
    "lazy_adam": lazy_adam_by_addr.create_hash_optimizer_by_address}
ONE_THREAD = {"inter_op_parallelism_threads": 1, "intra_op_parallelism_threads": 1}


@contextlib.contextmanager
def ascpipe(**kwargs):
    """A graph of its own between ``init`` and its end, which comes whatever happens."""
    with tf.Graph().as_default():
        tf.compat.v1.set_random_seed(1)
        init(**kwargs)
        try:
            yield
        finally:
            terminate_config_initializer()


def session(**config):
    """With threads of its own: else it has as many as the first session of the process asked for."""
    options = tf.compat.v1.ConfigProto(**{**ONE_THREAD, "use_per_session_threads": True, **config})
    once_by_each_optimizer(options)
    return tf.compat.v1.Session(config=options)


def once_by_each_optimizer(config):
    """Let each optimizer of graphs run once, not twice as usual. It takes half of the time and changes little more."""
    config.graph_options.rewrite_options.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE


def run_unfolded(build, threads):
    """Run what ``build`` returns with several threads. Constant folding is off: it would run the ops on one thread."""
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads,
                                      use_per_session_threads=True)
    config.graph_options.optimizer_options.opt_level = tf.compat.v1.OptimizerOptions.L0
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.Graph().as_default(), tf.compat.v1.Session(config=config) as opened:
        fetches = build()
        opened.run(tf.compat.v1.global_variables_initializer())
        return opened.run(fetches)


def start():
    """Start the pipeline of the default graph now, as the first run of a session does."""
    start_asc_pipeline()
    Process.current().deferred.start(tf.compat.v1.get_default_graph())


def batches(count, seed=0, keys=KEYS, size=6):
    """Dicts of numpy arrays: ``a`` int64[size, 3], ``b`` int32[size], ``c`` int64[size], ``label`` float32[size]."""
    random = np.random.RandomState(seed)
    return [{"a": random.randint(0, keys, (size, 3)).astype(np.int64),
             "b": random.randint(0, keys, size).astype(np.int32),
             "c": random.randint(-keys, 0, size), "label": random.rand(size).astype(np.float32)} for _ in range(count)]


def dataset(source):
    """A dataset over a list of batches."""
    return dataset_of(source, {key: [None, *value.shape[1:]] if value.ndim else [] for key, value in source[0].items()})


def dataset_of(source, shapes):
    """A dataset over batches, dicts of arrays whose components have these shapes.

    Batches of a list are constants of the graph, as long as few of them differ in shape: to build the functions of
    ``from_generator`` takes longer than to build the rest of a small program.
    """
    types = {key: tf.as_dtype(np.asarray(value).dtype) for key, value in source[0].items()}
    groups = [list(group) for _, group in itertools.groupby(source, _shapes)] if type(source) is list else []
    if not 1 <= len(groups) <= MOST_SHAPES:
        return tf.data.Dataset.from_generator(lambda: iter(source), types, shapes)
    data = [tf.compat.v1.data.Dataset.from_tensor_slices(
        {key: np.array([batch[key] for batch in group]) for key in types}) for group in groups]
    spec = {key: tf.TensorSpec(shapes[key], types[key]) for key in types}
    return functools.reduce(lambda some, more: some.concatenate(more), data).apply(
        lambda whole: tf.data.experimental.from_variant(tf.data.experimental.to_variant(whole), spec))


def _shapes(batch):
    return {key: np.shape(value) for key, value in batch.items()}


def table(name, rows=100, dim=DIM, initializer=None, host_rows=0):
    return create_table(tf.int64, dim, name, initializer or tf.compat.v1.random_normal_initializer(stddev=0.3, seed=11),
                        device_vocabulary_size=rows, host_vocabulary_size=host_rows)


def specs():
    return [FeatureSpec("a", table_name="user", index_key="a"), FeatureSpec("b", table_name="user", index_key="b"),
            FeatureSpec("c", table_name="item", index_key="c")]


def insert(source, features, training=True, stages=lambda data: data.prefetch(4)):
    """An initializable iterator over batches, and its batch."""
    data = stages(dataset(source).map(get_asc_insert_func(features, is_training=training)))
    iterator = tf.compat.v1.data.make_initializable_iterator(data)
    return iterator, iterator.get_next()


def model(rows, label, reuse=None):
    """Loss of the rows [size, 3, DIM], [size, DIM], [size, DIM] of a batch."""
    with tf.compat.v1.variable_scope("dense", reuse=reuse):
        inputs = tf.concat([tf.reduce_sum(rows[0], axis=1), rows[1], rows[2]], axis=1)
        weights = tf.compat.v1.get_variable(
            "weights", [3 * DIM, 1], initializer=tf.compat.v1.constant_initializer(0.1), use_resource=False)
        logits = tf.squeeze(tf.matmul(inputs, weights), axis=1)
        return tf.reduce_mean(tf.square(tf.sigmoid(logits) - label))


def optimizer(kind, *arguments, **kwargs):
    """An optimizer for the program's tables: by address where they expand."""
    return (BY_ADDRESS if get_use_dynamic_expansion() else OPTIMIZERS)[kind](*arguments, **kwargs)


def trained(*tables):
    """Of all tables of the program, what to differentiate by, and what to give the gradients to an optimizer with."""
    if get_use_dynamic_expansion():
        return tf.compat.v1.get_collection(ASCEND_SPARSE_LOOKUP_LOCAL_EMB), \
            tf.compat.v1.get_collection(ASCEND_SPARSE_LOOKUP_ID_OFFSET)
    variables = [table.variable for table in tables]
    return variables, variables


def apply(loss, variables, sparse_optimizer, dense_optimizer=None, handles=None):
    """The training op: all gradients first, then all updates. With ``handles``, those of the local rows before."""
    dense = tf.compat.v1.trainable_variables("dense")
    gradients = tf.gradients(loss, list(variables) + dense)
    values = tf.tuple([g.values if isinstance(g, tf.IndexedSlices) else g for g in gradients])
    gated = [tf.IndexedSlices(v, g.indices, g.dense_shape) if isinstance(g, tf.IndexedSlices) else v
             for v, g in zip(values, gradients)]
    sparse = sparse_optimizer.apply_gradients(list(zip(gated, handles or variables)))
    dense_optimizer = dense_optimizer or tf.compat.v1.train.GradientDescentOptimizer(0.1)
    return tf.group(sparse, dense_optimizer.apply_gradients(zip(gated[len(variables):], dense)))


class Program:
    """The model over two tables, ready to run: ``user`` with two lookups, ``item`` with one.

    Attributes:
        user, item: the tables.
        iterator, batch, rows, loss, train: of the training channel.
        eval_features, eval_iterator, eval_batch, eval_rows, eval_loss: of the evaluation channel, if it has batches.
    """

    def __init__(self, source, optimizer, eval_source=None, stages=lambda data: data.prefetch(4), rows=100, start=True,
                 send_count=None, is_grad=(True, True, True), host_rows=0):
        self.user, self.item = table("user", rows, host_rows=host_rows), table("item", rows, host_rows=host_rows)
        self._is_grad = is_grad
        features = specs()
        self.iterator, self.batch = insert(source, features, stages=stages)
        self.rows = self._look_up(features, self.batch, send_count, is_train=True)
        self.loss = model(self.rows, self.batch["label"])
        rows, handles = trained(self.user, self.item)
        self.train = apply(self.loss, rows, optimizer(), handles=handles)
        if eval_source is not None:
            self.eval_features = specs()
            self.eval_iterator, self.eval_batch = insert(eval_source, self.eval_features, training=False)
            self.eval_rows = self._look_up(self.eval_features, self.eval_batch, send_count, is_train=False)
            self.eval_loss = model(self.eval_rows, self.eval_batch["label"], reuse=True)
        if start:
            start_asc_pipeline()

    def _look_up(self, features, batch, send_count, is_train):
        return [sparse_lookup(owner, spec, send_count, is_train=is_train, batch=batch, is_grad=is_grad)
                for owner, spec, is_grad in zip((self.user, self.user, self.item), features, self._is_grad)]

    def initialise(self, session):
        session.run([self.iterator.initializer, tf.compat.v1.global_variables_initializer()])


def first_rows(source):
    """Initial rows of every key of some batches, by table: what the first lookup of each gives."""
    found = {"user": {}, "item": {}}
    with ascpipe():
        program = Program(source, lambda: tf.compat.v1.train.GradientDescentOptimizer(0.0))
        with session() as run:
            program.initialise(run)
            for batch in source:
                rows = run.run(program.rows)
                for name, key, value in zip(("user", "user", "item"), "abc", rows):
                    found[name].update(zip(batch[key].reshape(-1).tolist(), value.reshape(-1, DIM)))
    return found


def plain_losses(source, optimizer, first, is_grad=(True, True, True)):
    """Losses of the same model over plain variables that begin with the same rows; keys shifted to be >= 0."""
    with tf.Graph().as_default():
        start = {name: np.zeros([2 * KEYS, DIM], np.float32) for name in first}
        for name, rows in first.items():
            for key, row in rows.items():
                start[name][key + KEYS] = row
        iterator = tf.compat.v1.data.make_initializable_iterator(dataset(source))
        batch = iterator.get_next()
        variables = [tf.compat.v1.Variable(start[name], use_resource=False, trainable=False)
                     for name in ("user", "item")]
        owners = (variables[0], variables[0], variables[1])
        rows = [tf.nn.embedding_lookup(owner, batch[key] + KEYS) for owner, key in zip(owners, "abc")]
        rows = [row if trained else tf.stop_gradient(row) for row, trained in zip(rows, is_grad)]
        loss = model(rows, batch["label"])
        train = apply(loss, variables, optimizer())
        with session() as run:
            run.run([iterator.initializer, tf.compat.v1.global_variables_initializer()])
            return [run.run([loss, train])[0] for _ in source]


def our_losses(source, optimizer, **kwargs):
    """Losses of the model over tables."""
    init_arguments = {key: kwargs.pop(key) for key in ("use_dynamic", "use_dynamic_expansion") if key in kwargs}
    with ascpipe(**init_arguments):
        program = Program(source, optimizer, **kwargs)
        with session() as run:
            program.initialise(run)
            return [run.run([program.loss, program.train])[0] for _ in source]
