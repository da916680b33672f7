"""Expansion tables: rows live in host memory, are used there by handle, and the table grows."""
import os
import signal

import pytest
import tensorflow as tf

from ascpipe.tf.running.process import Process
from mx_rec.constants.constants import ASCEND_SPARSE_LOOKUP_ID_OFFSET as HANDLES
from mx_rec.constants.constants import ASCEND_SPARSE_LOOKUP_LOCAL_EMB as LOCAL_ROWS
from mx_rec.constants.constants import ASCEND_SPARSE_LOOKUP_UNIQUE_KEYS as UNIQUE_KEYS
from mx_rec.core.asc import start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.util.initialize import get_use_dynamic_expansion
from mx_rec.util.ops import import_host_pipeline_ops
from mx_rec.util.variable import get_dense_and_sparse_variable
from tests.support.waiting import wait_until
from tests.tf import programs
from tests.tf.one_table import OneTable, batch, one_table, trained

SOURCE = programs.batches(12)


def losses(name="lazy_adam", expansion=True, **kwargs):
    return programs.our_losses(SOURCE, lambda: programs.optimizer(name, 0.1), use_dynamic_expansion=expansion, **kwargs)


def test_a_table_grows_beyond_its_first_chunk_and_keeps_what_it_has():
    count, at_once = 250000, 50000
    batches = [batch(*range(i, i + at_once)) for i in range(0, count, at_once)] + [batch(*range(0, count, 7))]
    with one_table(batches, [0, count - 1, count], expansion=True, stages=lambda data: data) as program:
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            assert program.table.size() == 0
            capacities = []
            for step in range(len(batches) - 1):
                assert set(program.take()) == {1}
                capacities.append(program.table.capacity())
                assert capacities[-1] >= program.table.size() == (step + 1) * at_once
            assert capacities[-1] > capacities[0]
            assert set(program.take()) == {0}
            assert program.read() == {0: -1, count - 1: 0, count: 0}


class TestCollections:
    def lookups(self, order, is_grad=(True, True, True)):
        """Tables ``user``, with the features a and b, and ``item``, with c; looked up in that order."""
        tables = [programs.table("user"), programs.table("item")]
        owners = dict(zip("abc", (tables[0], tables[0], tables[1])))
        for training in (True, False):
            features = dict(zip("abc", programs.specs()))
            _, taken = programs.insert(SOURCE, list(features.values()), training=training)
            for key, trains in zip(order, is_grad):
                sparse_lookup(owners[key], features[key], batch=taken, is_train=training, is_grad=trains)
        return tf.compat.v1.get_collection(LOCAL_ROWS), tf.compat.v1.get_collection(HANDLES)

    def test_they_hold_local_rows_and_handles_once_for_each_table_in_the_order_of_the_training_lookups(self):
        with programs.ascpipe(use_dynamic_expansion=True):
            local, handles = self.lookups("cab")
            assert [rows.op.get_attr("table") for rows in local] == [1, 0]
            assert [made.op for made in handles] == [rows.op for rows in local]
            assert [(rows.dtype, rows.shape.as_list()) for rows in local] == [(tf.float32, [None, programs.DIM])] * 2
            assert [(made.dtype, made.shape.rank) for made in handles] == [(tf.int64, 1)] * 2
            assert tf.compat.v1.get_collection(UNIQUE_KEYS) == handles

    def test_the_unique_keys_of_lookups_of_tensors_are_their_handles_before_they_are_merged(self):
        with programs.ascpipe(use_dynamic_expansion=True):
            ids = tf.compat.v1.data.make_one_shot_iterator(programs.dataset(SOURCE)).get_next()["a"]
            rows = sparse_lookup(programs.table("user"), ids, modify_graph=True)
            assert tf.compat.v1.get_collection(UNIQUE_KEYS) == tf.compat.v1.get_collection(HANDLES) != []
            assert rows.shape[-1].value == programs.DIM

    def test_tables_without_a_gradient_are_not_in_them(self):
        with programs.ascpipe(use_dynamic_expansion=True):
            local, handles = self.lookups("abc", [False, True, False])
            assert [rows.op.get_attr("table") for rows in local] == [0]
            assert len(handles) == 1

    def test_tables_with_variables_are_not_in_them(self):
        with programs.ascpipe():
            assert self.lookups("abc") == ([], [])


def test_programs_that_give_unique_keys_to_the_optimizer_train_the_same(monkeypatch):
    found = losses()
    monkeypatch.setattr(programs, "ASCEND_SPARSE_LOOKUP_ID_OFFSET", UNIQUE_KEYS)
    assert losses() == found


@pytest.mark.parametrize("kwargs", [
    {"is_grad": (True, False, True)}, {"use_dynamic": False, "send_count": 64},
    {"stages": lambda data: data}])
def test_lookups_train_as_those_of_other_tables_do(kwargs):
    found = losses(**kwargs)
    assert found == losses(expansion=False, **kwargs)
    assert len(set(found)) == len(SOURCE)


@pytest.mark.parametrize("initializer", [
    tf.compat.v1.constant_initializer(0.25), tf.compat.v1.truncated_normal_initializer(stddev=0.5, seed=3),
    tf.compat.v1.orthogonal_initializer(seed=4)], ids=["constant", "distribution", "pool"])
def test_rows_begin_as_the_initializer_says(initializer, monkeypatch):
    table = programs.table
    monkeypatch.setattr(programs, "table", lambda name, rows, host_rows=0: table(name, rows, initializer=initializer))
    assert losses("gradient_descent") == losses("gradient_descent", expansion=False)


def test_tables_with_merging_train_as_those_without(monkeypatch):
    expected = losses()
    monkeypatch.setattr(programs, "create_table", lambda *args, **kwargs: create_table(
        *args, **kwargs, enable_merge=True))
    assert losses() == expected


def test_a_killed_table_worker_leaves_no_trace():
    expected = losses()
    with programs.ascpipe(use_dynamic_expansion=True):
        program = programs.Program(SOURCE, lambda: programs.optimizer("lazy_adam", 0.1))
        with programs.session() as run:
            program.initialise(run)
            found, killed = [], []
            for step in range(len(SOURCE)):
                if step in (3, 7):
                    killed.append(table_worker(killed))
                    os.kill(killed[-1], signal.SIGKILL)
                found.append(run.run([program.loss, program.train])[0])
            assert found == expected
            # Batches may have been planned ahead of the second kill, so that no step waits for another worker.
            wait_until(lambda: sum(worker["restarts"] for worker in workers()) == 2, what="the second restart")


def workers():
    return Process.current().running_pipeline().link.status()["workers"]


def table_worker(killed):
    """Pid of the table worker, once it works; the daemon may not know yet that those before it are dead."""
    found = []

    def works():
        found[:] = [worker["pid"] for worker in workers() if worker["kind"] == "table" and worker["pid"]
                    and worker["attached"] and worker["pid"] not in killed]
        return bool(found)

    wait_until(works, what="a table worker")
    return found[0]


def test_running_the_initializer_again_empties_the_table():
    batches = [batch(1, 2), batch(2, 3)] * 2
    with one_table(batches, [1, 2, 3], expansion=True) as program:
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            first = [program.take() for _ in range(2)]
            program.start(run)
            assert (program.table.size(), program.read()) == (0, {1: 0, 2: 0, 3: 0})
            assert [program.take() for _ in range(2)] == first == [[1, 1], [0, 1]]


def test_a_dense_optimizer_minimizes_dense_variables_alone():
    with programs.ascpipe(use_dynamic_expansion=True):
        program = OneTable([batch(1, 2)] * 3, [1], optimizer=lambda: programs.optimizer("gradient_descent", 0.0))
        weight = tf.compat.v1.Variable(2.0, use_resource=False)
        train = tf.compat.v1.train.GradientDescentOptimizer(0.5).minimize(weight * tf.reduce_sum(program.rows))
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            for _ in range(3):
                run.run(train)
            assert (run.run(weight), program.read()) == (2 - 3 * 0.5 * 4, {1: 1})


class TestHandles:
    """Host ops that read and write rows by handle."""

    @pytest.fixture(autouse=True)
    def program(self):
        self.ops = import_host_pipeline_ops()
        with one_table([batch(1, 2, 9), batch(2, 3, 3), batch(1, 2, 3)], [1, 2, 3, 9], expansion=True,
                       spec={"access_threshold": 2}, serving_default=-7.0) as program:
            (self.handles,) = tf.compat.v1.get_collection(HANDLES)
            self.given = tf.compat.v1.placeholder_with_default(self.handles, [None])
            self.read = self.ops.embedding_lookup_by_address(self.given, 2, name="read")
            self.add = self.ops.embedding_update_by_address(self.given, 10 * tf.ones_like(self.read))
            start_asc_pipeline()
            with programs.session() as run:
                program.start(run)
                self.run = run
                yield program

    def test_they_read_and_add_to_rows_and_pass_over_keys_without_one(self, program):
        assert self.run.run(self.read).tolist() == [[0, 0]] * 3
        handles, read, _ = self.run.run([self.handles, self.read, program.train])
        assert [handle != 0 for handle in handles] == [True, True]  # 2 and 3, which are admitted now
        assert read.tolist() == [[1, 1]] * 2
        handles, _ = self.run.run([self.handles, self.add])
        assert (handles != 0).tolist() == [True, True, True]
        assert program.read() == {1: 11, 2: 10, 3: 9, 9: -7}

    @pytest.mark.parametrize("forge", [lambda handle: handle, lambda handle: handle ^ 1 << 56, lambda handle: 12345])
    def test_a_forged_one_and_one_of_an_earlier_step_are_errors_that_write_nothing(self, program, forge):
        self.run.run([self.handles, program.train])
        handles, _ = self.run.run([self.handles, program.train])
        before = program.read()
        for op in (self.read, self.add):
            with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.FailedPreconditionError), match="andle"):
                self.run.run(op, {self.given: [0, forge(handles[0])]})
        assert program.read() == before
        assert len(program.take()) == 3

    def test_the_optimizer_refuses_a_forged_one_and_its_step_changes_nothing(self, program):
        self.run.run(program.train)
        with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.FailedPreconditionError), match="andle"):
            self.run.run(program.train, {self.handles: [1 << 41, 1 << 41]})
        assert program.read()[2] == 1
        program.take()
        assert program.read()[2] == 0

    @pytest.mark.parametrize("kwargs", [{"embedding_dim": 0}, {"embedding_dim": 2, "embedding_type": 2}])
    def test_their_arguments_have_rules(self, kwargs):
        with pytest.raises(ValueError):
            self.ops.embedding_lookup_by_address(self.handles, **kwargs)
        with pytest.raises(ValueError):
            self.ops.embedding_update_by_address(self.handles, self.read, update_type=1)


class TestArguments:
    @pytest.fixture(autouse=True)
    def expansion(self):
        with programs.ascpipe(use_dynamic_expansion=True):
            yield

    def test_sizes_are_without_effect_and_merging_is_accepted(self):
        assert get_use_dynamic_expansion()
        table = create_table(tf.int64, 8, "user", tf.compat.v1.zeros_initializer(), device_vocabulary_size=9,
                             host_vocabulary_size=5, ssd_vocabulary_size=5, enable_merge=True)
        assert (table.shape.device_rows, table.shape.home_rows) == (0, 0)
        assert table.variable.shape.as_list() == [1, 8]
        assert get_dense_and_sparse_variable() == ([], [table.variable])
        assert repr(table) == "Table('user', dim=8, expansion)"

    def test_the_name_of_merged_tables_is_reserved(self):
        with pytest.raises(ValueError, match="mergeable_table"):
            create_table(tf.int64, 8, "mergeable_table_0", tf.compat.v1.zeros_initializer(), enable_merge=True)

    @pytest.mark.parametrize("create", programs.OPTIMIZERS.values())
    def test_optimizers_of_tables_with_variables_are_refused(self, create):
        with pytest.raises(ValueError, match="not compatible with dynamic expansion mode.*by_addr"):
            create(0.1)


def test_sizes_of_create_table_are_no_limits():
    rows = {"device_vocabulary_size": 2, "host_vocabulary_size": 3}
    looked_up, found, size = trained([batch(*range(9)), batch(1, 2)], [1, 3], expansion=True, **rows)
    assert (looked_up, found, size) == ([[1] * 9, [0, 0]], {1: -1, 3: 0}, 9)
