"""A Saver that is used after the end of the pipeline would write or restore a checkpoint without the tables."""
import os

import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.errors import CallOrderError
from mx_rec.util.initialize import init, terminate_config_initializer
from tests.tf import one_table, programs

v1 = tf.compat.v1
SOURCE = [one_table.batch(1, 2), one_table.batch(2, 3)]
SAVERS = {"tensorflow": v1.train.Saver, "asc": asc.Saver, "variables": lambda: v1.train.Saver(v1.global_variables())}
ENDS = {"shutdown": asc.shutdown, "terminate": terminate_config_initializer}


@pytest.mark.parametrize("made", ["before", "after"])
@pytest.mark.parametrize("saver", SAVERS)
@pytest.mark.parametrize("end", [*ENDS, "another init"])
def test_a_saver_is_refused_after_the_end_of_the_pipeline_of_its_tables(end, saver, made, tmp_path):
    with one_table.one_table(SOURCE, [1]) as program:
        savers = [SAVERS[saver]()]
        asc.start()
        with programs.session() as run:
            program.start(run)
            program.take()
            before = savers[0].save(run, str(tmp_path / "before"), 1)
            ENDS.get(end, asc.shutdown)()
            if end == "another init":
                init()
            if made == "after":
                savers = [SAVERS[saver]()]
            with pytest.raises(CallOrderError, match=r"E263: A Saver was used after .*(shutdown|terminate).* 'ids'.* "
                                                     r"Nothing was written. Call save\(\) before"):
                savers[0].save(run, str(tmp_path / "after"), 1)
            with pytest.raises(CallOrderError, match=r"E263: .* Nothing was changed.*restore\(\)"):
                savers[0].restore(run, before)
        assert not [name for name in os.listdir(str(tmp_path)) if "after" in name]


def test_a_managed_session_that_ends_after_the_pipeline_refuses_its_last_checkpoint(tmp_path):
    with one_table.one_table(SOURCE, [1]) as program:
        scaffold = v1.train.Scaffold(local_init_op=tf.group(
            v1.train.Scaffold.default_local_init_op(), program.iterator.initializer, program.eval_iterator.initializer))
        asc.start()
        with pytest.raises(CallOrderError, match="E263"), v1.train.MonitoredTrainingSession(
                checkpoint_dir=str(tmp_path), scaffold=scaffold) as session:
            session.run(program.train)
            terminate_config_initializer()
    v1.summary.FileWriterCache.clear()
    assert [name for name in os.listdir(str(tmp_path)) if name.endswith(".index")] == ["model.ckpt-0.index"]


def test_savers_of_graphs_without_tables_save_as_usual_after_the_end(tmp_path):
    with one_table.one_table(SOURCE, [1]):
        asc.shutdown()
    with tf.Graph().as_default(), programs.session() as run:
        weights = v1.get_variable("weights", [2], initializer=v1.ones_initializer())
        run.run(weights.initializer)
        for saver in (v1.train.Saver(), asc.Saver()):
            saved = saver.save(run, str(tmp_path / "model"))
            run.run(weights.assign([3.0, 4.0]))
            saver.restore(run, saved)
            assert run.run(weights).tolist() == [1.0, 1.0]


def test_tables_that_are_never_saved_do_not_hinder_a_saver_after_the_end(tmp_path):
    with one_table.one_table(SOURCE, [1], is_save=False) as program:
        saver = v1.train.Saver()
        asc.start()
        with programs.session() as run:
            program.start(run)
            program.take()
            asc.shutdown()
            saved = saver.save(run, str(tmp_path / "model"))
    assert [name for name, _ in tf.train.list_variables(saved)] == ["global_step"]
