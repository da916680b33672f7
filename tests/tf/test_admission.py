"""Admission: a key gets a row once it has occurred often enough; until then it is looked up as if it were unknown."""
import numpy as np
import pytest
import tensorflow as tf

from mx_rec.core.asc import start_asc_pipeline
from mx_rec.util.ops import import_host_pipeline_ops
from tests.support.covering import some
from tests.support.on_disk import on_disk
from tests.tf import programs
from tests.tf.one_table import EXPANSION, OneTable, batch, one_table, trained

TIERS = {"device": {}, "host": {"device_vocabulary_size": 8, "host_vocabulary_size": 100}, "disk": on_disk(8, 100),
         "expansion": EXPANSION}
FULL_WINDOW = {"stages": lambda data: data.prefetch(40)}  #: everything is read ahead before the first step ends


@pytest.mark.parametrize("tier", some(TIERS, "disk", "expansion"))
def test_a_key_below_the_threshold_has_no_row_and_its_next_occurrence_may_give_it_one(tier):
    occurrences = np.repeat([11, 11, 33, 44, 11, 55, 88, 55], [1, 2, 1, 3, 1, 1, 4, 1])
    looked_up, rows, size = trained([batch(*occurrences)], [11, 33, 44, 55, 88, 99], spec={"access_threshold": 2},
                                    **TIERS[tier])
    assert looked_up == [[0 if key == 33 else 1 for key in occurrences]]
    assert (rows, size) == ({11: -3, 33: 0, 44: -2, 55: -1, 88: -3, 99: 0}, 4)
    looked_up, rows, size = trained([batch(*occurrences), batch(33, 99)], [33, 99], spec={"access_threshold": 2},
                                    **TIERS[tier])
    assert looked_up[1] == [1, 0]
    assert (rows, size) == ({33: 0, 99: 0}, 5)


@pytest.mark.parametrize("access", [0, 1])
def test_at_one_and_at_zero_every_key_is_admitted(access):
    looked_up, rows, size = trained([batch(5, 6, 6)], [5, 6], spec={"access_threshold": access})
    assert (looked_up, rows, size) == ([[1, 1, 1]], {5: 0, 6: -1}, 2)


@pytest.mark.parametrize("coefficient", [2, 3, 7])
def test_with_a_coefficient_a_key_is_admitted_after_so_many_fewer_occurrences(coefficient):
    needed = -(-7 // coefficient)
    looked_up, _, _ = trained([batch(5)] * 8, [5], spec={"access_threshold": 7, "faae_coefficient": coefficient})
    assert looked_up == [[0]] * (needed - 1) + [[1 - step] for step in range(8 - needed + 1)]


def test_rejected_keys_give_the_default_value_in_training_and_in_evaluation():
    looked_up, rows, _ = trained([batch(5, 6, 5), batch(6, 7)], [5, 6, 7, 8], spec={"access_threshold": 2},
                                 serving_default=[-7.0, 0.0])
    assert looked_up == [[1, -7, 1], [1, -7]]
    assert rows == {5: -1, 6: 0, 7: -7, 8: -7}


def test_the_second_form_of_the_thresholds_is_that_of_a_lookup():
    config = {"access_threshold": 4, "faae_coefficient": 2}
    looked_up, _, size = trained([batch(5), batch(5, 6), batch(6, 7)], [5],
                                 lookup={"access_and_evict_config": config})
    assert (looked_up, size) == ([[0], [1, 0], [1, 0]], 2)


def test_evaluation_counts_nothing_and_gives_no_rows():
    with programs.ascpipe():
        program = OneTable([batch(5)] * 3, [5, 5, 5, 6], spec={"access_threshold": 3})
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            for step, expected in enumerate([0, 0, 1]):
                for _ in range(3):
                    assert program.read() == {5: 0, 6: 0}
                assert program.table.size() == 0, step
                assert program.take() == [expected]
            assert (program.read(), program.table.size()) == ({5: 0, 6: 0}, 1)


def test_a_rejected_key_has_no_home_and_needs_none():
    batches = [batch(*range(i, i + 4)) for i in range(0, 40, 4)] + [batch(1, 2)]
    looked_up, rows, size = trained(batches, [1, 2, 3], spec={"access_threshold": 2}, device_vocabulary_size=4,
                                    host_vocabulary_size=4)
    assert (looked_up[-1], rows, size) == ([1, 1], {1: 0, 2: 0, 3: 0}, 2)


class TestSetThreshold:
    def program(self, batches, access=3, asked=(5,), **kwargs):
        return OneTable(batches, asked, spec={"access_threshold": access}, **FULL_WINDOW, **kwargs)

    @pytest.mark.parametrize("tier", some(TIERS, "disk", "expansion"))
    def test_it_takes_effect_at_its_step_with_the_window_full(self, tier):
        batches = [batch(5), batch(6), batch(5, 7), batch(6, 7), batch(5, 6)]
        with one_table(batches, (5, 6, 7), spec={"access_threshold": 3}, **FULL_WINDOW, **TIERS[tier]) as program:
            lower = import_host_pipeline_ops().set_threshold(tf.constant(2), emb_name="ids", ids_name="any")
            start_asc_pipeline()
            with programs.session() as run:
                program.start(run)
                assert [program.take() for _ in range(3)] == [[0], [0], [0, 0]]
                run.run(lower)
                assert [program.take() for _ in range(2)] == [[1, 1], [1, 0]]
                assert (program.read(), program.table.size()) == ({5: 0, 6: -1, 7: 0}, 3)

    def test_zero_stops_counting_and_a_new_threshold_begins_it_again(self):
        threshold = 2
        with programs.ascpipe():
            program = self.program([batch(5)] * 6)
            value = tf.compat.v1.placeholder(tf.int32, [])
            change = import_host_pipeline_ops().set_threshold(value)
            start_asc_pipeline()
            with programs.session() as run:
                program.start(run)
                assert program.take() == [0]
                run.run(change, {value: 0})
                assert [program.take() for _ in range(3)] == [[0]] * 3
                run.run(change, {value: threshold})
                assert [program.take() for _ in range(2)] == [[1], [0]]

    def test_a_higher_threshold_takes_no_row_away_but_hides_it(self):
        with programs.ascpipe():
            program = self.program([batch(5)] * 4, access=1)
            value = tf.compat.v1.placeholder(tf.int32, [])
            change = import_host_pipeline_ops().set_threshold(value)
            start_asc_pipeline()
            with programs.session() as run:
                program.start(run)
                assert program.take() == [1]
                run.run(change, {value: 3})
                assert (program.read(), program.table.size()) == ({5: 0}, 1)
                assert [program.take() for _ in range(3)] == [[0], [0], [-1]]

    def test_tables_without_admission_are_left_alone(self):
        with programs.ascpipe():
            program = self.program([batch(5), batch(6)], access=-1)
            change = import_host_pipeline_ops().set_threshold(50)
            start_asc_pipeline()
            with programs.session() as run:
                program.start(run)
                run.run(change)
                assert [program.take() for _ in range(2)] == [[1], [1]]

    def test_below_zero_is_an_error_of_its_run_and_no_more(self):
        with programs.ascpipe():
            program = self.program([batch(5)] * 3)
            change = import_host_pipeline_ops().set_threshold(-1)
            start_asc_pipeline()
            with programs.session() as run:
                program.start(run)
                with pytest.raises(tf.errors.InvalidArgumentError, match="threshold.*-1|-1.*threshold"):
                    run.run(change)
                assert [program.take() for _ in range(3)] == [[0], [0], [1]]

    def test_in_a_training_step_it_is_refused(self):
        with programs.ascpipe():
            program = self.program([batch(5)] * 3)
            with tf.control_dependencies([program.rows]):
                change = import_host_pipeline_ops().set_threshold(1)
            start_asc_pipeline()
            with programs.session() as run:
                program.start(run)
                with pytest.raises(tf.errors.FailedPreconditionError, match="run of its own"):
                    run.run([program.train, change])
                assert program.take() == [0]

    def test_an_unknown_table_and_a_graph_without_tables_are_refused(self):
        ops = import_host_pipeline_ops()
        with programs.ascpipe():
            with pytest.raises(ValueError, match="E264: set_threshold.. was called in a graph without tables"):
                ops.set_threshold(1)
            self.program([batch(5)])
            with pytest.raises(ValueError, match="no table 'nobody' in the default graph, which has the tables 'ids'"):
                ops.set_threshold(1, emb_name="nobody")
            assert ops.set_threshold(1, emb_name="i.ds", name="mine").name == "mine/group_deps"
