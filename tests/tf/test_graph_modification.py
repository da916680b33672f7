"""Lookups of plain tensors: the graph is modified so that the datasets carry their ids."""
import numpy as np
import pytest
import tensorflow as tf

from ascpipe.tf.graph.graph_state import GraphState
from mx_rec.constants import constants
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.graph.merge_lookup import do_merge_lookup
from mx_rec.graph.modifier import modify_graph_and_start_emb_cache
from mx_rec.optimizers import adagrad, lazy_adam
from mx_rec.util.initialize import get_initializer
from tests.tf import programs, tensor_programs

SOURCE = programs.batches(12)


def optimizer():
    return adagrad.create_hash_optimizer(0.3)


@pytest.fixture(scope="module")
def expected():
    """Losses in FeatureSpec mode."""
    return programs.our_losses(SOURCE, optimizer)


@pytest.mark.parametrize("structure, one_shot", [
    *((structure, False) for structure in tensor_programs.STRUCTURES), ("pair", True),
    *(pytest.param(structure, True, marks=pytest.mark.long) for structure in tensor_programs.STRUCTURES
      if structure != "pair")])
def test_losses_are_bit_identical_to_those_with_feature_specs(structure, one_shot, expected):
    assert tensor_programs.losses(SOURCE, optimizer, structure=structure, one_shot=one_shot) == expected


MODES = {
    "static shapes": {"use_dynamic": False, "send_count": 40},
    "expansion": {"use_dynamic_expansion": True}, "a lookup without a gradient": {"is_grad": (True, False, True)},
    "no prefetch": {"stages": lambda data: data},
    "stages behind prefetch": {"stages": lambda data: data.prefetch(3).take(100).repeat(1).prefetch(2)},
    "a shuffle behind prefetch": {"stages": lambda data: data.prefetch(3).shuffle(1)},
}


@pytest.mark.parametrize("mode", MODES)
def test_losses_are_bit_identical_with(mode, expected):
    arguments = dict(MODES[mode])
    theirs = {key: value for key, value in arguments.items() if key != "stages"}
    kind, rate = ("lazy_adam", 0.01) if mode == "expansion" else ("adagrad", 0.3)

    def make():
        return programs.optimizer(kind, rate)

    losses = programs.our_losses(SOURCE, make, **theirs) if theirs else expected
    assert tensor_programs.losses(SOURCE, make, **arguments) == losses


def test_all_prefetches_of_a_dataset_read_submitted_batches_ahead():
    with programs.ascpipe():
        program = tensor_programs.Program(SOURCE, optimizer, stages=lambda data: data.prefetch(3).repeat(1).prefetch(2))
        datasets = GraphState.of(tf.compat.v1.get_default_graph()).datasets
        assert datasets.run_ahead(program.batch["label"].op) == 5


def test_losses_are_bit_identical_with_host_rows_and_a_device_of_one_batch(expected, monkeypatch):
    monkeypatch.setattr(programs, "table", lambda name, rows, host_rows=0: create_table(
        tf.int64, programs.DIM, name, tf.compat.v1.random_normal_initializer(stddev=0.3, seed=11),
        device_vocabulary_size=24, host_vocabulary_size=100))
    assert tensor_programs.losses(SOURCE, optimizer) == expected


def evaluated(kind, **kwargs):
    """Training losses and evaluation losses, an evaluation after each fourth step."""
    other = programs.batches(3, seed=5, keys=2 * programs.KEYS)
    with programs.ascpipe():
        program = kind(SOURCE, lambda: lazy_adam.create_hash_optimizer(0.01), other, **kwargs)
        found = []
        with programs.session() as run:
            program.initialise(run)
            for step, _ in enumerate(SOURCE):
                found.append(run.run([program.loss, program.train])[0])
                if step % 4 == 3:
                    run.run(evaluation_initializer(program))
                    found.extend(run.run(program.eval_loss) for _ in other)
        return found


def evaluation_initializer(program):
    return get_initializer(False) or program.eval_iterator.initializer


def test_training_and_evaluation_each_find_their_dataset():
    assert evaluated(tensor_programs.Program) == evaluated(programs.Program)


def test_the_batch_the_initializer_and_the_names_of_the_program_stay_what_they_were():
    with programs.ascpipe():
        program = tensor_programs.Program(SOURCE, optimizer)
        assert get_initializer(True) is program.iterator.initializer
        assert get_initializer(False) is None
        assert tf.compat.v1.get_collection(constants.ASCEND_CUTTING_POINT_INITIALIZER) == [get_initializer(True)]
        with programs.session() as run:
            run.run([program.iterator.initializer, tf.compat.v1.global_variables_initializer()])
            for batch in SOURCE:
                label, again, _ = run.run([program.batch["label"], program.batch["label"].name, program.train])
                assert label.tolist() == again.tolist() == batch["label"].tolist()


def test_a_one_shot_iterator_has_an_initializer_that_does_nothing():
    with programs.ascpipe():
        tensor_programs.Program(SOURCE, optimizer, one_shot=True)
        assert get_initializer(True).type == "NoOp"


def test_an_iterator_is_initialised_from_several_datasets():
    first, second = programs.batches(3), programs.batches(4, seed=3)
    with programs.ascpipe():
        data = [programs.dataset(source).prefetch(2) for source in (first, second)]
        iterator = tf.compat.v1.data.Iterator.from_structure(
            tf.compat.v1.data.get_output_types(data[0]), tf.compat.v1.data.get_output_shapes(data[0]))
        initializers = [iterator.make_initializer(each) for each in data]
        table = programs.table("user")
        rows = sparse_lookup(table, iterator.get_next()["a"], modify_graph=True)
        train = adagrad.create_hash_optimizer(0.3).minimize(tf.reduce_sum(rows), var_list=[table.variable])
        modify_graph_and_start_emb_cache()
        with pytest.raises(ValueError, match="from 2 datasets"):
            get_initializer(True)
        with programs.session() as run:
            run.run(tf.compat.v1.global_variables_initializer())
            for initializer, source in zip(initializers, (first, second)):
                run.run(initializer)
                for _ in source:
                    run.run(train)
                with pytest.raises(tf.errors.OutOfRangeError):
                    run.run(train)
            keys = {key for batch in first + second for key in batch["a"].reshape(-1).tolist()}
            assert table.size() == len(keys)


def test_a_graph_that_is_not_the_default_one_can_be_modified():
    with programs.ascpipe():
        graph = tf.Graph()
        with graph.as_default():
            program = tensor_programs.Program(SOURCE, optimizer, modify=lambda: None)
        modify_graph_and_start_emb_cache(full_graph=graph)
        assert get_initializer(True) is program.iterator.initializer
        with graph.as_default(), programs.session() as run:
            program.initialise(run)
            run.run(program.train)


def test_dump_graph_writes_the_graph_before_and_after_and_what_was_moved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with programs.ascpipe():
        tensor_programs.Program(SOURCE, optimizer, modify=lambda: modify_graph_and_start_emb_cache(dump_graph=True))
    names = sorted(path.name for path in (tmp_path / "export_graph").iterdir())
    assert names == ["cut_graph_IteratorGetNext.pbtxt", "new_graph.pbtxt", "old_graph.pbtxt"]
    moved = (tmp_path / "export_graph" / "cut_graph_IteratorGetNext.pbtxt").read_text()
    assert moved.count('op: "Sub"') == 3
    assert "AscNextPlan" not in (tmp_path / "export_graph" / "new_graph.pbtxt").read_text()


class TestMerge:
    def test_minimize_merges_and_tf_gradients_needs_do_merge_lookup_before(self):
        with programs.ascpipe():
            table = programs.table("user")
            _, batch = tensor_programs.take(SOURCE)
            rows = [sparse_lookup(table, batch[key], modify_graph=True) for key in "ab"]
            loss = tf.reduce_sum(rows[0]) + tf.reduce_sum(rows[1])
            with pytest.raises(RuntimeError, match="do_merge_lookup"):
                tf.gradients(loss, table.variable)
            do_merge_lookup()
            do_merge_lookup(is_train=True)
            (gradient,) = tf.gradients(loss, table.variable)
            assert gradient.values.op.type == "AscLookupGrad"

    def test_local_rows_and_handles_are_collected_at_the_first_lookup(self):
        with programs.ascpipe(use_dynamic_expansion=True):
            table = programs.table("user")
            _, batch = tensor_programs.take(SOURCE)
            rows = [sparse_lookup(table, batch[key], modify_graph=True) for key in "ab"]
            local, handles = programs.trained(table)
            assert (len(local), len(handles)) == (1, 1)
            loss = tf.reduce_sum(rows[0]) + tf.reduce_sum(rows[1])
            with pytest.raises(RuntimeError, match="do_merge_lookup"):
                tf.gradients(loss, local)
            do_merge_lookup()
            assert programs.trained(table) == (local, handles)
            gradients = tf.gradients(loss, local)
            programs.optimizer("lazy_adam", 0.01).apply_gradients(zip(gradients, handles))
            modify_graph_and_start_emb_cache()

    def test_lookups_that_are_not_merged_are_a_runtime_error(self):
        with programs.ascpipe():
            table = programs.table("user")
            _, batch = tensor_programs.take(SOURCE)
            sparse_lookup(table, batch["a"], modify_graph=True)
            with pytest.raises(RuntimeError, match="do_merge_lookup"):
                modify_graph_and_start_emb_cache()

    def test_merging_a_channel_without_lookups_is_a_runtime_error_and_with_feature_specs_nothing(self):
        with programs.ascpipe():
            do_merge_lookup()
            do_merge_lookup(is_train=False)
            _, batch = tensor_programs.take(SOURCE)
            sparse_lookup(programs.table("user"), batch["a"], modify_graph=True)
            with pytest.raises(RuntimeError, match="evaluation lookup"):
                do_merge_lookup(is_train=False)
            with pytest.raises(ValueError):
                do_merge_lookup(is_train=1)

    def test_a_merged_table_cannot_be_looked_up_again(self):
        with programs.ascpipe():
            table = programs.table("user")
            _, batch = tensor_programs.take(SOURCE)
            sparse_lookup(table, batch["a"], modify_graph=True)
            do_merge_lookup()
            with pytest.raises(RuntimeError, match="E263: .*minimize.. or do_merge_lookup.. has already merged its "
                               "lookups into one op"):
                sparse_lookup(table, batch["a"], modify_graph=True)

    def test_a_lookup_that_is_run_before_the_modification_says_what_to_call(self):
        with programs.ascpipe():
            iterator, batch = tensor_programs.take(SOURCE)
            rows = sparse_lookup(programs.table("user"), batch["a"], modify_graph=True)
            assert rows.shape.as_list() == [None, 3, programs.DIM]
            with programs.session() as run:
                run.run(iterator.initializer)
                with pytest.raises(tf.errors.FailedPreconditionError, match="modify_graph_and_start_emb_cache"):
                    run.run(rows)


def test_training_and_evaluation_may_look_up_one_batch():
    with programs.ascpipe():
        table = programs.table("user", 1000)
        _, batch = tensor_programs.take(SOURCE)
        trained, evaluated = [sparse_lookup(table, batch["a"] + shift, is_train=is_train, modify_graph=True)
                              for shift, is_train in ((0, True), (1000, False))]
        train = adagrad.create_hash_optimizer(0.3).minimize(tf.reduce_sum(trained), var_list=[table.variable])
        modify_graph_and_start_emb_cache()
        assert get_initializer(True) is get_initializer(False)
        with programs.session() as run:
            run.run([get_initializer(True), tf.compat.v1.global_variables_initializer()])
            for _ in SOURCE:
                run.run(train)
            run.run(get_initializer(True))
            assert not run.run(evaluated).any()  # these keys have no rows
            assert table.size() == len({key for each in SOURCE for key in each["a"].reshape(-1).tolist()})


def test_lookups_may_stand_in_scopes_devices_and_branches():
    with programs.ascpipe():
        table = programs.table("user", 1000)
        iterator, batch = tensor_programs.take(SOURCE)
        with tf.device("/device:CPU:0"), tf.name_scope("tower"), tf.control_dependencies([batch["label"]]):
            rows = sparse_lookup(table, batch["a"], modify_graph=True, name="rows")
        assert rows.op.name == "tower/rows"
        chosen = tf.cond(batch["b"][0] >= 0, lambda: sparse_lookup(table, batch["b"], modify_graph=True) * 2.0,
                         lambda: tf.zeros([1, programs.DIM]))
        loss = tf.reduce_sum(rows) + tf.reduce_sum(chosen)
        train = adagrad.create_hash_optimizer(0.3).minimize(loss, var_list=[table.variable])
        modify_graph_and_start_emb_cache()
        with programs.session() as run:
            run.run([iterator.initializer, tf.compat.v1.global_variables_initializer()])
            for each in SOURCE:
                assert run.run([rows, train])[0].shape == (*each["a"].shape, programs.DIM)
            assert table.size() == len({key for each in SOURCE for name in "ab"
                                        for key in each[name].reshape(-1).tolist()})


def test_ids_may_be_joined_with_themselves():
    with programs.ascpipe():
        table = programs.table("user", 1000)
        iterator, batch = tensor_programs.take(SOURCE)
        rows = sparse_lookup(table, tf.concat([batch["b"], batch["b"]], 0), modify_graph=True)
        optimizer().minimize(tf.reduce_sum(rows), var_list=[table.variable])
        modify_graph_and_start_emb_cache()
        with programs.session() as run:
            run.run([iterator.initializer, tf.compat.v1.global_variables_initializer()])
            first, second = np.split(run.run(rows), 2)
            np.testing.assert_array_equal(first, second)
            assert first.any()
