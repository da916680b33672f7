"""``asc.optimizers.accumulate`` trains as a program of TensorFlow that keeps sums of gradients in variables."""
import contextlib
from random import Random

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.errors import NotBuiltYetError, TableUseError
from tests.tf import twin_programs, ways_to_train
from tests.tf.test_gradients_of_tables import LINEAR, NOT_LINEAR, trained_by
from tests.tf.twin_programs import RATE, require_equal_or_refused

v1 = tf.compat.v1
K = 3
#: The device holds the keys of a cycle, and not all keys.
SIZES = {"user": {"device_vocabulary_size": 32, "host_vocabulary_size": 60},
         "item": {"device_vocabulary_size": 18, "host_vocabulary_size": 60}}
DISK = {"user": {"device_vocabulary_size": 32, "host_vocabulary_size": 33, "ssd_vocabulary_size": 60},
        "item": {"device_vocabulary_size": 18, "host_vocabulary_size": 19, "ssd_vocabulary_size": 60}}


class ByHand(v1.train.Optimizer):
    """Sums gradients over K steps in variables, and then applies them. Sparse gradients stay sparse."""

    def __init__(self, optimizer):
        super().__init__(use_locking=False, name="ByHand")
        self.optimizer = optimizer

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        pairs = [(gradient, variable) for gradient, variable in grads_and_vars if gradient is not None]
        with tf.init_scope():
            sums = [tf.Variable(tf.zeros(variable.shape), trainable=False, use_resource=True) for _, variable in pairs]
            seen = [tf.Variable(tf.zeros(variable.shape[:1]), trainable=False, use_resource=True)
                    for _, variable in pairs]
            count = tf.Variable(tf.zeros([], tf.int64), trainable=False, use_resource=True)
        added = []
        for (gradient, _), total, rows in zip(pairs, sums, seen):
            if isinstance(gradient, tf.IndexedSlices):
                added += [total.scatter_add(gradient), rows.scatter_add(
                    tf.IndexedSlices(tf.ones_like(gradient.indices, tf.float32), gradient.indices))]
            else:
                added.append(total.assign_add(gradient))

        def apply():
            given = []
            for (gradient, variable), total, rows in zip(pairs, sums, seen):
                if isinstance(gradient, tf.IndexedSlices):
                    which = tf.where(rows.read_value() > 0)[:, 0]
                    given.append((tf.IndexedSlices(tf.gather(total.read_value(), which), which,
                                                   tf.constant(variable.shape.as_list())), variable))
                else:
                    given.append((total.read_value(), variable))
            with tf.control_dependencies([self.optimizer.apply_gradients(given)]):
                return tf.group(*(each.assign(tf.zeros_like(each)) for each in [*sums, *seen]))

        with tf.control_dependencies(added):
            now = count.assign_add(1)
        with tf.control_dependencies([tf.cond(tf.equal(now % K, 0), apply, tf.no_op)]):
            return tf.group(*([] if global_step is None else [global_step.assign_add(1)]), name=name)


def accumulated(make):
    return lambda: asc.optimizers.accumulate(make(), K)


def by_hand(make):
    return lambda: ByHand(make())


@pytest.fixture(autouse=True)
def _kinds(monkeypatch):
    for kind, (ours, plain) in list(twin_programs.OPTIMIZERS.items()):
        monkeypatch.setitem(twin_programs.OPTIMIZERS, "accumulated_" + kind, (accumulated(ours), by_hand(plain)))
    monkeypatch.setitem(twin_programs.TIERS, "cycle", SIZES)
    monkeypatch.setitem(twin_programs.TIERS, "disk cycle", DISK)


def require_equal(train, kind, tier, mode="tensors", folder="."):
    """The program with an accumulating optimizer trains as that of TensorFlow does with sums in variables."""
    found = twin_programs.ours(train("accumulated_" + kind), tier, mode, folder)
    assert found.error is None, found.error
    assert not require_equal_or_refused(found, twin_programs.plain(train("accumulated_" + kind)))


#: The other ways leave batches out, whose number counts, or sum gradients of tables by hand.
WAYS = [way for way in ways_to_train.TRAIN
        if "conditional" not in way.__name__ and way is not ways_to_train.by_tensorflows]
KINDS = ["gradient_descent", "adagrad", "ftrl", "lazy_adam"]


@pytest.mark.parametrize("way", WAYS, ids=ways_to_train.name_of)
def test_sums_are_applied_as_in_tensorflow_whatever_way_a_program_trains(way):
    require_equal(way, KINDS[WAYS.index(way) % len(KINDS)], "cycle")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tier", ["device", "cycle", "disk cycle"])
@pytest.mark.parametrize("mode", ["tensors", "features"])
@pytest.mark.each_value
def test_sums_are_applied_as_in_tensorflow_in_every_tier(kind, tier, mode, tmp_path):
    require_equal(ways_to_train.minimize, kind, tier, mode, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("number", range(10))
def test_many_random_compositions(number, tmp_path):
    """Changes of the gradient of a batch, before it is added, too."""
    random = Random(number)
    for _ in range(30):
        changes = random.sample([*LINEAR, *NOT_LINEAR], random.randint(0, 2))
        way = random.choice([*WAYS, *[lambda kind, changes=changes: trained_by(kind, changes)] * 8])
        given = random.choice(KINDS), random.choice(["device", "cycle", "disk cycle"]), random.choice(
            ["tensors", "features"])
        try:
            require_equal(way, *given, tmp_path)
        except Exception as error:
            raise AssertionError("{} {} {}: {}".format(
                way.__name__, [each.__name__ for each in changes], given, error)) from error


IDS = np.random.RandomState(1).randint(0, 30, [60, 2])
LABELS = np.random.RandomState(2).rand(60).astype(np.float32)
BATCH = 4


class Program:
    """One table, trained by accumulated Adagrad in cycles of K batches.

    Attributes:
        table: the table.
        iterator: of batches of BATCH rows.
        loss: of a batch.
        train: the op that trains.
        session: with initialized variables, and the iterator at its begin.
    """

    def __init__(self, ids=IDS, labels=LABELS, make=lambda: asc.optimizers.Adagrad(0.1), mean=False, spec=None,
                 times=None, read_ahead=0, **given):
        sizes = {"device_vocabulary_size": 64, "initializer": v1.constant_initializer(0.3)}
        self.table = asc.create_table("user", 3, **{**sizes, **given})
        data = tf.data.Dataset.from_tensor_slices({"ids": ids, "labels": labels[:len(ids)]}).batch(BATCH)
        specs = [] if spec is None else [spec]
        if times is not None:
            stamps = tf.data.Dataset.from_tensor_slices(np.array(times, np.int64))
            data = tf.data.Dataset.zip((data, stamps)).map(lambda batch, stamp: {**batch, "time": stamp})
            specs.append(asc.FeatureSpec("time", is_timestamp=True))
        if specs:
            data = data.map(asc.insert_function(specs))
        self.iterator = v1.data.make_initializable_iterator(data.prefetch(read_ahead) if read_ahead else data)
        batch = self.iterator.get_next()
        rows = asc.sparse_lookup(self.table, *([batch["ids"]] if spec is None else [spec]), batch=batch)
        with v1.variable_scope("dense", use_resource=True):
            weights = v1.get_variable("weights", [3], initializer=v1.constant_initializer(0.2))
        self.loss = tf.reduce_mean(tf.square(tf.reduce_sum(tf.reduce_sum(rows, 1) * weights, 1) - batch["labels"]))
        self.train = asc.optimizers.accumulate(make(), K, mean=mean).minimize(
            self.loss, v1.train.get_or_create_global_step())
        self._asked = v1.placeholder(tf.int64, [None])
        self._reader = v1.data.make_initializable_iterator(tf.data.Dataset.from_tensors(self._asked))
        self._read = asc.sparse_lookup(self.table, self._reader.get_next(), training=False, default_value="initial")
        self.saver = v1.train.Saver()
        asc.start()

    def begin(self, session):
        session.run([v1.global_variables_initializer(), self.iterator.initializer])
        return session

    def rows_of(self, session, keys):
        session.run(self._reader.initializer, {self._asked: keys})
        return session.run(self._read)


def test_rows_change_once_in_a_cycle_and_the_step_counts_batches():
    with twin_programs.ascpipe():
        program = Program()
        with program.begin(v1.Session()) as session:
            seen = []
            for _ in range(2 * K):
                session.run(program.train)
                seen.append(program.rows_of(session, range(30)).tobytes())
            assert session.run(v1.train.get_global_step()) == 2 * K
    assert seen[0] == seen[1] == np.full([30, 3], 0.3, np.float32).tobytes()
    assert len({*seen[:2]}) == len({*seen[2:5]}) == 1
    assert len({*seen}) == 3


def test_a_mean_is_the_sum_divided_by_the_batches():
    found = []
    for mean, rate in ((True, 3.0), (False, 1.0)):
        with twin_programs.ascpipe():
            program = Program(make=lambda rate=rate: asc.optimizers.GradientDescent(rate), mean=mean)
            with program.begin(v1.Session()) as session:
                for _ in range(K):
                    session.run(program.train)
                found.append(program.rows_of(session, range(30)))
    np.testing.assert_allclose(*found, rtol=1e-6)


@pytest.mark.parametrize("tier", [{}, {"device_vocabulary_size": 24, "host_vocabulary_size": 60}],
                         ids=["device", "host"])
def test_a_training_that_is_resumed_within_a_cycle_goes_on_as_if_it_had_not_ended(tier, tmp_path):
    with twin_programs.ascpipe():
        program = Program(**tier)
        with program.begin(v1.Session()) as session:
            expected = [session.run([program.loss, program.train])[0] for _ in range(9)]
            rows = program.rows_of(session, range(30))
    with twin_programs.ascpipe():
        program = Program(**tier)
        with program.begin(v1.Session()) as session:
            found = [session.run([program.loss, program.train])[0] for _ in range(4)]
            program.saver.save(session, str(tmp_path / "model"), 4)
    with twin_programs.ascpipe():
        program = Program(IDS[4 * BATCH:], LABELS[4 * BATCH:], **tier)
        with v1.Session() as session:
            program.saver.restore(session, str(tmp_path / "model-4"))
            session.run(program.iterator.initializer)
            found += [session.run([program.loss, program.train])[0] for _ in range(5)]
            assert found == expected
            assert program.rows_of(session, range(30)).tobytes() == rows.tobytes()


def test_a_warm_start_within_a_cycle_begins_without_sums(tmp_path):
    """As in TensorFlow, which takes over trainable variables."""
    with twin_programs.ascpipe():
        program = Program(np.repeat([[1], [2], [3], [4]], BATCH, 0), make=lambda: asc.optimizers.GradientDescent(1.0))
        with program.begin(v1.Session()) as session:
            for _ in range(K + 1):
                session.run(program.train)
            rows = program.rows_of(session, range(10))
            program.saver.save(session, str(tmp_path / "model"))
    with twin_programs.ascpipe():
        program = Program(np.repeat([[5], [6], [7]], BATCH, 0), make=lambda: asc.optimizers.GradientDescent(1.0))
        load = asc.warm_start(str(tmp_path / "model"))
        with program.begin(v1.Session()) as session:
            load(session)
            for _ in range(K):
                session.run(program.train)
            found = program.rows_of(session, range(10))
    assert [key for key in range(10) if (found[key] != rows[key]).any()] == [5, 6, 7]
    assert (rows[4] == np.float32(0.3)).all()


def test_sums_of_a_cycle_whose_last_batch_is_not_trained_are_applied_when_their_keys_occur_next():
    ids = np.repeat([[1], [2], [3], [1], [4], [5], [6], [2], [7]], BATCH, 0)
    with twin_programs.ascpipe():
        program = Program(ids, make=lambda: asc.optimizers.GradientDescent(1.0))
        with program.begin(v1.Session()) as session:
            changed = []
            for batch in range(9):
                session.run(program.loss if batch == 2 else program.train)
                rows = program.rows_of(session, range(10))
                changed.append([key for key in range(10) if (rows[key] != np.float32(0.3)).any()])
    assert changed == [[]] * 5 + [[1, 4, 5]] * 3 + [[1, 2, 4, 5, 6, 7]]


def test_a_key_of_a_batch_that_was_not_trained_gets_no_row():
    ids = np.repeat([[1], [2], [3]], BATCH, 0)
    with twin_programs.ascpipe():
        program = Program(ids)
        with program.begin(v1.Session()) as session:
            session.run(program.train)
            session.run(program.iterator.get_next())
            session.run(program.train)
            assert program.table.size() == 2


def test_batches_that_an_iterator_has_read_ahead_and_drops_are_not_counted():
    with twin_programs.ascpipe():
        program = Program(np.repeat(np.arange(10), BATCH)[:, np.newaxis], read_ahead=5)
        with program.begin(v1.Session()) as session:
            changed = []
            for batch in range(2 * K):
                if batch in (2, 3, 4):
                    session.run(program.iterator.initializer)
                session.run(program.train)
                rows = program.rows_of(session, range(10))
                changed.append([key for key in range(10) if (rows[key] != np.float32(0.3)).any()])
            assert program.table.size() == 2
    assert changed == [[], [], [0, 1], [0, 1], [0, 1], [0, 1]]


def restored_or_initialized(tmp_path, change):
    """Train by 4 batches, save, train by one more, let ``change`` restore or initialize, and train by one more."""
    with twin_programs.ascpipe():
        program = Program(read_ahead=2)
        with program.begin(v1.Session()) as session:
            for _ in range(4):
                session.run(program.train)
            program.saver.save(session, str(tmp_path / "model"))
            session.run(program.train)
            change(session, program)
            session.run(program.train)


def test_a_batch_read_ahead_of_a_restore_that_moves_its_cycle_is_an_error(tmp_path):
    with pytest.raises(tf.errors.FailedPreconditionError, match="read ahead before a checkpoint was restored"):
        restored_or_initialized(tmp_path, lambda session, program: program.saver.restore(
            session, str(tmp_path / "model")))


def test_a_batch_read_ahead_of_an_initializer_that_moves_its_cycle_is_an_error(tmp_path):
    with pytest.raises(tf.errors.FailedPreconditionError, match="variables were initialized"):
        restored_or_initialized(tmp_path, lambda session, _: session.run(v1.global_variables_initializer()))


def test_a_training_that_begins_anew_counts_from_its_begin(tmp_path):
    """Also if it is saved and resumed."""
    with twin_programs.ascpipe():
        program = Program()
        for _ in range(2):
            with program.begin(v1.Session()) as session:
                for batch in range(1, 5):
                    session.run(program.train)
                    is_changed = (program.rows_of(session, range(30)) != np.float32(0.3)).any()
                    assert is_changed == (batch >= 3)
                program.saver.save(session, str(tmp_path / "model"))
        assert asc.trained_batches(str(tmp_path / "model")) == {"training": 4}
        with v1.Session() as session:
            program.saver.restore(session, str(tmp_path / "model"))
            session.run(program.iterator.initializer)
            rows = [program.rows_of(session, range(30)).tobytes()]
            for _ in range(2):
                session.run(program.train)
                rows.append(program.rows_of(session, range(30)).tobytes())
            assert rows[0] == rows[1] != rows[2]


def test_variables_and_tables_can_have_cycles_of_their_own():
    def train(model):
        if model.is_ours:
            return asc.Optimizer(dense=asc.optimizers.accumulate(v1.train.AdagradOptimizer(RATE), K),
                                 sparse=lambda: asc.optimizers.Adagrad(RATE)).minimize(model.loss)
        dense, sparse = ByHand(v1.train.AdagradOptimizer(RATE)), v1.train.AdagradOptimizer(RATE)
        pairs = sparse.compute_gradients(model.loss)
        with tf.control_dependencies(ways_to_train.gates_of(pairs)):
            tables = [pair for pair in pairs if pair[1] in model.variables()]
            return tf.group(sparse.apply_gradients(tables), dense.apply_gradients(
                [pair for pair in pairs if pair not in tables]))

    assert not require_equal_or_refused(twin_programs.ours(train), twin_programs.plain(train))


def test_occurrences_are_counted_once_where_keys_are_admitted():
    ids = np.repeat([[1, 2], [1, 3], [1, 3]], [2, 1, 1], 0)  # 1 four times, 2 twice, 3 twice
    ids = np.concatenate([ids, np.full([2 * BATCH, 2], 9)])
    with twin_programs.ascpipe():
        program = Program(ids, spec=asc.FeatureSpec("ids", table_name="user", access_threshold=3))
        with program.begin(v1.Session()) as session:
            for _ in range(K):
                session.run(program.train)
            rows = program.rows_of(session, range(10))
            assert program.table.size() == 2
    assert [key for key in range(10) if (rows[key] != np.float32(0.3)).any()][-1] == 9


def test_an_eviction_within_a_cycle_takes_the_sums_of_a_key_with_it():
    ids = np.repeat([[1], [2], [3], [1], [2], [3]], BATCH, 0)
    with twin_programs.ascpipe():
        spec = asc.FeatureSpec("ids", table_name="user", eviction_threshold=3)
        program = Program(ids, make=lambda: asc.optimizers.GradientDescent(1.0), spec=spec, times=[1, 5, 6, 7, 8, 9])
        with program.begin(v1.Session()) as session:
            for batch in range(K):
                session.run(program.train)
                if batch == 1:
                    asc.trigger_evict(session)
            rows = program.rows_of(session, range(5))
            assert [key for key in range(5) if (rows[key] != np.float32(0.3)).any()] == [2, 3]
            assert program.table.size() == 2


def test_padding_keys_keep_their_rows():
    with twin_programs.ascpipe():
        program = Program(padding_keys=[int(IDS[0, 0])])
        with program.begin(v1.Session()) as session:
            for _ in range(2 * K):
                session.run(program.train)
            assert (program.rows_of(session, [int(IDS[0, 0])]) == np.float32(0.3)).all()


def test_a_cycle_that_does_not_fit_the_device_is_an_error():
    with twin_programs.ascpipe():
        program = Program(device_vocabulary_size=10, host_vocabulary_size=60)
        with program.begin(v1.Session()) as session:
            with pytest.raises(tf.errors.ResourceExhaustedError, match="E320.*Raise device_vocabulary_size"):
                for _ in range(K):
                    session.run(program.train)


def test_k_1_changes_nothing():
    with twin_programs.ascpipe():
        optimizer = asc.optimizers.Adagrad(0.1)
        assert asc.optimizers.accumulate(optimizer, 1) is optimizer


@pytest.mark.parametrize("given", [(None, 3), ("Adagrad", 3), (lambda: None, 3)], ids=repr)
def test_what_is_no_optimizer_is_refused(given):
    with twin_programs.ascpipe(), pytest.raises(ValueError, match="optimizer is .*expected a tf.compat.v1.train"):
        asc.optimizers.accumulate(*given)


@pytest.mark.parametrize("k", [0, -1, 1001, 2.5, "3", True])
def test_wrong_numbers_are_refused(k):
    with twin_programs.ascpipe(), pytest.raises(ValueError, match="argument k"):
        asc.optimizers.accumulate(asc.optimizers.Adagrad(0.1), k)


@pytest.mark.parametrize("given", [{"use_dynamic_expansion": True}, {"use_dynamic": False}, {}],
                         ids=["tables that grow", "static shapes", "ranks"])
def test_what_is_not_built_is_refused(given, monkeypatch):
    if not given:
        monkeypatch.setenv("HOROVOD_RANK", "0")
        monkeypatch.setenv("HOROVOD_SIZE", "2")
    with twin_programs.ascpipe(**given), pytest.raises(NotBuiltYetError, match="accumulate.*not built yet"):
        asc.optimizers.accumulate(v1.train.GradientDescentOptimizer(0.1), 2)


@pytest.mark.parametrize("optimizers", [1, 2])
def test_gradients_of_one_table_that_are_accumulated_twice_are_refused(optimizers):
    """For example two tasks that are trained in turns: the one of them may never have the last batch of a cycle."""
    def train(model):
        made = [asc.optimizers.accumulate(model.optimizer("adagrad"), K) for _ in range(optimizers)]
        return tf.group(*(each.minimize(model.loss, var_list=asc.table_variables()) for each in (made[0], made[-1])))

    error = twin_programs.ours(train, "device").error
    assert isinstance(error, TableUseError)
    assert "accumulated twice" in str(error)


def scalars():
    return [v1.get_variable(name, [], initializer=v1.ones_initializer(), use_resource=True) for name in ("a", "b")]


def test_gradients_of_one_variable_that_are_accumulated_twice_are_refused():
    with twin_programs.ascpipe():
        optimizer, (weight, bias) = accumulated(lambda: v1.train.GradientDescentOptimizer(RATE))(), scalars()
        optimizer.minimize(weight * 2)
        with pytest.raises(ValueError, match="applied twice to variable 'a'"):
            optimizer.minimize(weight * bias)


def test_one_optimizer_counts_the_batches_of_each_training_op():
    found = []
    with twin_programs.ascpipe():
        for make in (accumulated, by_hand):
            with tf.Graph().as_default():
                optimizer, variables = make(lambda: v1.train.GradientDescentOptimizer(RATE))(), scalars()
                train = [optimizer.minimize(tf.square(each), var_list=[each]) for each in variables]
                with v1.Session() as session:
                    session.run(v1.global_variables_initializer())
                    found.append([session.run([train, variables])[1] for _ in range(2 * K + 1)][-1])
    np.testing.assert_allclose(*found, rtol=1e-6)


def test_tables_of_two_datasets_under_one_optimizer_are_refused():
    with twin_programs.ascpipe():
        rows = []
        for name in ("user", "item"):
            table = asc.create_table(name, 2, device_vocabulary_size=64, initializer=v1.ones_initializer())
            data = tf.data.Dataset.from_tensor_slices(IDS).batch(BATCH)
            rows.append(asc.sparse_lookup(table, v1.data.make_one_shot_iterator(data).get_next()))
        asc.optimizers.accumulate(asc.optimizers.Adagrad(0.1), K).minimize(tf.reduce_sum(tf.add(*rows)))
        asc.start()
        with pytest.raises(TableUseError, match="E253.*two datasets"), v1.Session() as session:
            session.run(v1.global_variables_initializer())


def test_dense_variables_alone_are_accumulated_too():
    found = []
    with twin_programs.ascpipe():
        for make in (accumulated(lambda: v1.train.AdagradOptimizer(RATE)), by_hand(
                lambda: v1.train.AdagradOptimizer(RATE))):
            with tf.Graph().as_default():
                weights = v1.get_variable("weights", [4, 2], initializer=v1.ones_initializer())
                bias = v1.get_variable("bias", [], initializer=v1.ones_initializer(), use_resource=True)
                ids = v1.placeholder(tf.int32, [3])
                loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(weights, ids) - bias * 3))
                train = make().minimize(loss)
                with v1.Session() as session:
                    session.run(v1.global_variables_initializer())
                    for step in range(2 * K + 1):
                        session.run(train, {ids: [step % 3, 0, 1]})
                    found.append(session.run([weights, bias]))
    for ours, plain in zip(*found):
        np.testing.assert_allclose(ours, plain, rtol=1e-6)


def input_of(columns):
    """Batches of BATCH rows for an Estimator."""
    return tf.data.Dataset.from_tensor_slices((columns, (LABELS > 0.5).astype(np.float32)[:, np.newaxis])).batch(BATCH)


def model_of(make):
    """A model function that asks for a training op in each mode, where tables are looked up."""
    column = tf.feature_column.embedding_column(
        tf.feature_column.categorical_column_with_identity("ids", 30), 3, initializer=v1.constant_initializer(0.3))

    def model_fn(features, labels, mode):
        rows = v1.feature_column.input_layer(features, [column])
        weights = v1.get_variable("weights", [3, 1], initializer=v1.constant_initializer(0.2), use_resource=True)
        loss = tf.reduce_mean(tf.square(tf.matmul(rows, weights) - labels))
        trains = make is accumulated or mode == tf.estimator.ModeKeys.TRAIN
        optimizer = make(lambda: v1.train.AdagradOptimizer(0.1))()
        train = optimizer.minimize(loss, v1.train.get_global_step()) if trains else tf.no_op()
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    return model_fn


def test_an_estimator_trains_evaluates_and_trains_on_with_tables_behind_columns(tmp_path):
    found = []
    for make in (accumulated, by_hand):
        with contextlib.ExitStack() as end:
            if make is accumulated:
                asc.use_for_feature_columns(min_buckets=10)
                end.callback(asc.shutdown)
            config = tf.estimator.RunConfig(save_summary_steps=None, tf_random_seed=1)
            estimator = tf.estimator.Estimator(model_of(make), str(tmp_path / make.__name__), config)
            for _ in range(2):
                estimator.train(lambda: input_of({"ids": IDS[:, 0]}), steps=K + 1)  # the session has read ahead
                found.append(estimator.evaluate(lambda: input_of({"ids": IDS[:, 0]}))["loss"])
    v1.summary.FileWriterCache.clear()
    np.testing.assert_allclose(found[:2], found[2:], rtol=1e-5)
    assert found[0] > found[1]
