"""Lookups that evaluate give a key that was never trained the row with which it would begin."""
import contextlib

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from tests.reference import initial_rows
from tests.tf import programs
from tests.tf.test_lookup_fusion import ran as count_ops

V1 = tf.compat.v1
DIM = 6
SEEN = np.array([5, 1, -3, 2 ** 40, 7])
FRESH = np.array([11, -2 ** 62, 4, 9, 2 ** 33])
ASKED = np.stack([FRESH, SEEN, FRESH])
KINDS = {"constant": V1.constant_initializer(0.3), "uniform": V1.random_uniform_initializer(-0.05, 0.05),
         "truncated": V1.truncated_normal_initializer(0.0, 0.1), "pool": V1.orthogonal_initializer(),
         "seeded": V1.random_normal_initializer(stddev=0.1, seed=-5)}
TIERS = {"device": {"device_vocabulary_size": 100},
         "host": {"device_vocabulary_size": 6, "host_vocabulary_size": 100}, "expansion": {}}

pytestmark = [pytest.mark.timeout_s(120), pytest.mark.filterwarnings("ignore:distutils Version classes")]


def new_table(kind):
    return asc.create_table("table", DIM, initializer=KINDS[kind], device_vocabulary_size=100)


def begin_with(shape, keys):
    """The rows with which keys of a table begin, by the plain version; float32[keys, DIM]."""
    pool = () if shape.pool is None else shape.pool
    return np.array([initial_rows.row(shape.seed, shape.kind, shape.a, shape.b, shape.scale, int(key), DIM, pool)
                     for key in keys], np.float32)


class Program:
    """Each step trains one batch of keys, SEEN and then FRESH, and takes one from all their rows."""

    def __init__(self, kind="truncated", tier="device"):
        self.table = asc.create_table("table", DIM, initializer=KINDS[kind], **TIERS[tier])
        data = tf.data.Dataset.from_tensor_slices(np.stack([SEEN, FRESH]))
        self._iterator = V1.data.make_initializable_iterator(data)
        self.rows = asc.sparse_lookup(self.table, self._iterator.get_next() + 0)
        optimizer = asc.optimizers.GradientDescent(1.0)
        pairs = optimizer.compute_gradients(tf.reduce_sum(self.rows))
        # Nothing else makes the update wait for the lookup, as this gradient does not depend on the rows.
        with tf.control_dependencies([self.rows]):
            gated = [(tf.IndexedSlices(tf.identity(g.values), g.indices, g.dense_shape), v) for g, v in pairs]
            self.train = optimizer.apply_gradients(gated)
        asked = V1.data.make_initializable_iterator(tf.data.Dataset.from_tensors(ASKED).repeat())
        self._asked, ids = asked, asked.get_next()
        splits = np.arange(0, ASKED.size + 1, DIM - 1)
        bags = tf.RaggedTensor.from_row_splits(tf.reshape(ids, [-1]), splits, validate=False)
        self.evaluated = {
            "initial": asc.sparse_lookup(self.table, tf.bitwise.invert(tf.bitwise.invert(ids)), training=False,
                                         default_value="initial"),
            "direct": asc.sparse_lookup(self.table, ids, training=False, default_value="initial"),
            "zeros": asc.sparse_lookup(self.table, ids + 0, training=False),
            "bags": asc.lookup_sparse(self.table, bags, None, "sum", training=False, default_value="initial")}

    def start(self, run):
        run.run([self._iterator.initializer, self._asked.initializer, V1.global_variables_initializer()])

    def evaluate(self, run):
        """Rows of ASKED; initial ones where there are none."""
        found = run.run(self.evaluated)
        assert np.array_equal(found["initial"], found["direct"])
        sums = found["initial"][:, 0]
        for place in range(1, ASKED.shape[1]):
            sums = sums + found["initial"][:, place]
        assert np.array_equal(found["bags"], sums)
        return found["initial"], found["zeros"]


@pytest.mark.parametrize("kind, tier", [*((kind, "device") for kind in KINDS), ("truncated", "host"),
                                        ("pool", "host"), ("uniform", "expansion"), ("pool", "expansion")])
def test_evaluation_gives_unseen_keys_what_training_gives_at_first_sight(kind, tier):
    with programs.ascpipe(use_dynamic_expansion=tier == "expansion"):
        program = Program(kind, tier)
        asc.start()
        seen, fresh = begin_with(program.table.shape, SEEN), begin_with(program.table.shape, FRESH)
        with programs.session() as run:
            program.start(run)
            rows, zeros = program.evaluate(run)
            assert np.array_equal(rows, [fresh, seen, fresh])
            assert not zeros.any()
            assert np.array_equal(run.run([program.rows, program.train])[0], seen)
            rows, zeros = program.evaluate(run)
            assert np.array_equal(rows, [fresh, seen - np.float32(1), fresh])
            assert np.array_equal(rows[1], zeros[1])
            assert not zeros[[0, 2]].any()
            assert np.array_equal(run.run([program.rows, program.train])[0], fresh)
            rows, zeros = program.evaluate(run)
            assert np.array_equal(rows, zeros)
            assert program.table.size() == SEEN.size + FRESH.size


def test_the_step_takes_the_ids_from_the_dataset_and_does_not_make_them_again():
    with programs.ascpipe():
        program = Program()
        asc.start()
        with programs.session() as run:
            program.start(run)
            _, ops = count_ops(run, program.evaluated["initial"])
            assert (ops["AscLookupWithInitialRows"], ops["AscLookup"]) == (1, 1)
            assert not ops["Invert"]


@pytest.mark.parametrize("kind", ["truncated", "pool"])
def test_an_exported_model_gives_the_initial_rows_of_the_checkpoint(kind, tmp_path):
    prefix = str(tmp_path / "model.ckpt-1")
    with programs.ascpipe():
        program = Program(kind)
        saver = asc.Saver()
        asc.start()
        with programs.session() as run:
            program.start(run)
            run.run(program.train)
            saver.save(run, prefix)
            wanted, _ = program.evaluate(run)
        with tf.Graph().as_default(), asc.serving_tables(prefix):  # whose graph has no seed
            ids = V1.placeholder(tf.int64, [None, None])
            table = new_table(kind)
            rows = asc.sparse_lookup(table, ids, training=False, default_value="initial")
            assert rows.shape.as_list() == [None, None, DIM]
            with programs.session() as run:
                V1.saved_model.simple_save(run, str(tmp_path / "exported"), {"ids": ids}, {"rows": rows},
                                           legacy_init_op=V1.tables_initializer())
        with tf.Graph().as_default(), programs.session() as run:
            V1.saved_model.load(run, ["serve"], str(tmp_path / "exported"))
            assert np.array_equal(run.run(rows.name, {ids.name: ASKED}), wanted)
            assert np.array_equal(run.run(rows.name, {ids.name: ASKED[:0]}), wanted[:0])


@pytest.mark.parametrize("kind", ["uniform", "pool"])
def test_after_a_restore_unseen_keys_begin_with_the_seed_and_pool_of_the_checkpoint(kind, tmp_path):
    prefix, found = str(tmp_path / "model.ckpt-1"), []
    for seed in (1, 2):
        with programs.ascpipe():
            V1.set_random_seed(seed)
            program = Program(kind)
            saver = asc.Saver()
            asc.start()
            with programs.session() as run:
                program.start(run)
                if seed == 1:
                    run.run(program.train)
                    saver.save(run, prefix)
                found.append(program.evaluate(run)[0])
                if seed == 2:
                    saver.restore(run, prefix)
                    found.append(program.evaluate(run)[0])
                    run.run(program.train)
                    assert np.array_equal(run.run(program.rows), found[2][0])
    assert np.array_equal(found[0], found[2])
    assert not np.array_equal(found[0][0], found[1][0])


@contextlib.contextmanager
def plain_program(**arguments):
    """A graph of its own for a program that calls ``ascpipe.tf``."""
    with tf.Graph().as_default():
        V1.set_random_seed(1)
        asc.init(**arguments)
        try:
            yield
        finally:
            asc.shutdown()


#: Ids of an evaluation in rows of up to three; the places without an id are -1 here.
ROWS = [[11, 5, 4], [7, -1, -1], [1, 9, -1]]
SPARSE = {"indices": [[r, c] for r, row in enumerate(ROWS) for c, key in enumerate(row) if key >= 0],
          "values": [key for row in ROWS for key in row if key >= 0]}


def in_forms(batch):
    """A batch whose ids are dense, and the same as rows of a SparseTensor."""
    sparse = tf.SparseTensor(tf.constant(SPARSE["indices"], tf.int64), batch["few"], [len(ROWS), 3])
    return {**batch, "sparse": sparse, "bags": sparse}


class Usual:
    """A program that looks up evaluation rows in all forms, without a ``default_value``.

    Args:
        more: arguments of its features.
        tensors: whether it looks tensors up.
        lookups: arguments of its training lookup.
    """

    def __init__(self, more=None, tensors=False, lookups=None, static=False):
        self.table = new_table("truncated")
        limit = {"max_keys": 50} if static else {}
        forms = {"dense": asc.sparse_lookup, "sparse": asc.sparse_lookup,
                 "bags": lambda *given, **named: asc.lookup_sparse(*given, combiner="sum", **named)}
        if static:
            del forms["sparse"], forms["bags"]
        specs = {form: asc.FeatureSpec(form, table_name="table", **(more or {})) for form in forms}
        given = {"dense": ASKED, "few": np.array(SPARSE["values"])}
        data = tf.data.Dataset.from_tensors(given).repeat().map(in_forms)
        train_spec = asc.FeatureSpec("train", table_name="table", index_key="train", **(more or {}))
        training = tf.data.Dataset.from_tensors({"train": SEEN}).repeat()
        if not tensors:
            data = data.map(asc.insert_function(list(specs.values()), training=False))
            training = training.map(asc.insert_function([train_spec]))
        self._iterators = [V1.data.make_initializable_iterator(each) for each in (data, training)]
        batch, trained = (each.get_next() for each in self._iterators)
        ids = {form: batch[form] if tensors else specs[form] for form in forms}
        self.rows = {form: look_up(self.table, ids[form], batch=None if tensors else batch, training=False, **limit)
                     for form, look_up in forms.items()}
        self.trained = asc.sparse_lookup(self.table, trained["train"] if tensors else train_spec,
                                         batch=None if tensors else trained, **limit, **(lookups or {}))
        loss = tf.reduce_sum(tf.square(self.trained))
        self.train = asc.optimizers.GradientDescent(0.5).minimize(loss, var_list=asc.table_variables())
        asc.start()

    def evaluate(self, run):
        return run.run(self.rows)

    def start(self, run):
        run.run([*(each.initializer for each in self._iterators), V1.global_variables_initializer()])


def wanted(table, trained):
    """Rows of the evaluation in each form; ``trained``: what the rows of SEEN are now."""
    rows = {int(key): row for key, row in zip(FRESH, begin_with(table.shape, FRESH))}
    rows.update({int(key): row for key, row in zip(SEEN, trained)})
    nothing = np.zeros(DIM, np.float32)
    dense = np.array([[rows.get(int(key), nothing) for key in line] for line in ASKED])
    sparse = np.array([[rows[key] if key >= 0 else nothing for key in line] for line in ROWS])
    return {"dense": dense, "sparse": sparse, "bags": sparse[:, 0] + sparse[:, 1] + sparse[:, 2]}


@pytest.mark.parametrize("tensors, static", [(False, False), (True, False), (False, True)],
                         ids=["features", "tensors", "static"])
def test_by_default_a_key_that_was_never_trained_gives_its_initial_row_in_evaluation(tensors, static):
    with plain_program(**({"use_dynamic": False} if static else {})):
        program = Usual(tensors=tensors, static=static)
        with programs.session() as run:
            program.start(run)
            rows = begin_with(program.table.shape, SEEN)
            for _ in range(2):
                found = program.evaluate(run)
                for form, expected in wanted(program.table, rows).items():
                    if form in found:
                        np.testing.assert_array_equal(found[form], expected, err_msg=form)
                run.run(program.train)
                rows = np.zeros_like(rows)  # as the rate is half of what the gradient of a square is
            assert program.table.size() == SEEN.size


@pytest.mark.parametrize("how", ["features", "lookups"])
def test_by_default_a_key_that_was_not_admitted_gives_zeros_in_evaluation(how):
    with plain_program():
        program = Usual(more={"access_threshold": 3}) if how == "features" else Usual(
            tensors=True, lookups={"access_threshold": 3})
        with programs.session() as run:
            program.start(run)
            for _ in range(2):
                run.run(program.train)
                assert not any(found.any() for found in program.evaluate(run).values())


@pytest.mark.parametrize("access, expected", [(3, "zeros"), (None, "initial")])
def test_a_later_graph_that_evaluates_alone_follows_the_threshold_of_the_graph_before(access, expected):
    with plain_program():
        program = Usual(more={} if access is None else {"access_threshold": access})
        with programs.session() as run:
            program.start(run)
            run.run(program.train)
        with tf.Graph().as_default():
            table, spec = new_table("truncated"), asc.FeatureSpec("ids", table_name="table")
            data = tf.data.Dataset.from_tensors({"ids": FRESH}).repeat()
            iterator = V1.data.make_initializable_iterator(data.map(asc.insert_function([spec], training=False)))
            rows = asc.sparse_lookup(table, spec, batch=iterator.get_next(), training=False)
            asc.start()
            with programs.session() as run:
                run.run([iterator.initializer, V1.global_variables_initializer()])
                found = run.run(rows)
        np.testing.assert_array_equal(
            found, begin_with(program.table.shape, FRESH) if expected == "initial" else np.zeros_like(found))


def test_programs_of_rec_sdk_have_zeros_by_default():
    with programs.ascpipe():
        program = Usual()
        with programs.session() as run:
            program.start(run)
            assert not any(found.any() for found in program.evaluate(run).values())


@pytest.mark.parametrize("access", [None, 2])
def test_by_default_an_exported_model_follows_the_rule_of_evaluation(access, tmp_path):
    prefix, limits = str(tmp_path / "model.ckpt-1"), {} if access is None else {"access_threshold": access}
    with plain_program():
        program = Usual(more=limits)
        saver = asc.Saver()
        with programs.session() as run:
            program.start(run)
            run.run(program.train)
            saver.save(run, prefix)
            evaluated = program.evaluate(run)["dense"]
        with tf.Graph().as_default(), asc.serving_tables(prefix):
            ids = V1.placeholder(tf.int64, [None, None])
            spec = asc.FeatureSpec("ids", table_name="table")
            rows = asc.sparse_lookup(new_table("truncated"), spec, batch={"ids": ids}, training=False)
            with programs.session() as run:
                run.run(V1.tables_initializer())
                assert np.array_equal(run.run(rows, {ids: ASKED}), evaluated)
    assert evaluated.any() == (access is None)


class TestRefusals:
    """What has no initial rows is refused where the lookup is made."""

    @pytest.fixture
    def table(self):
        with programs.ascpipe():
            yield new_table("constant")

    def test_a_feature_spec_without_its_batch_does_not_give_its_keys(self):
        with plain_program(use_dynamic=False):
            table, spec = new_table("constant"), asc.FeatureSpec("ids", table_name="table")
            data = tf.data.Dataset.from_tensors({"ids": SEEN}).map(asc.insert_function([spec], training=False))
            V1.data.make_initializable_iterator(data).get_next()
            with pytest.raises(ValueError, match="'ids'.*computed from the keys. Pass .* as batch, or numbers as "
                               "default_value"):
                asc.sparse_lookup(table, spec, training=False, max_keys=9)
            asc.sparse_lookup(table, spec, training=False, max_keys=9, default_value=0.0)

    def test_another_word_is_named(self, table):
        with pytest.raises(ValueError, match="default_value: 'zeros' is str, expected .* numbers; or .*'initial'"):
            asc.sparse_lookup(table, tf.constant([1]), training=False, default_value="zeros")
