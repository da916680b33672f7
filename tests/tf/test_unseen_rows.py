"""Lookups that evaluate give a key that was never trained the row with which it would begin."""
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
            assert (ops["AscWithInitialRows"], ops["AscLookup"]) == (1, 1)
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


class TestRefusals:
    """What has no initial rows is refused where the lookup is made."""

    @pytest.fixture
    def table(self):
        with programs.ascpipe():
            yield new_table("constant")

    def test_a_feature_spec_does_not_give_its_keys(self, table):
        spec = asc.FeatureSpec("ids", table_name="table")
        for look_up in (asc.sparse_lookup, asc.lookup_sparse):
            with pytest.raises(ValueError, match="FeatureSpec 'ids' names them only; give a tensor of ids"):
                look_up(table, spec, batch={"ids": tf.constant([1])}, training=False, default_value="initial")

    def test_another_word_is_named(self, table):
        with pytest.raises(ValueError, match="default_value: 'zeros' is str, expected .* numbers; or .*'initial'"):
            asc.sparse_lookup(table, tf.constant([1]), training=False, default_value="zeros")
