"""What a program asks of its iterators before and after graph modification, in every order of two."""
import itertools
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from mx_rec.graph.merge_lookup import do_merge_lookup
from mx_rec.graph.modifier import GraphModifierHook, modify_graph_and_start_emb_cache
from mx_rec.util.initialize import ConfigInitializer
from tests.support.daemons import ROOT, DaemonProcess
from tests.tf import programs, tensor_programs

SOURCE = programs.batches(12)


def sgd():
    return programs.optimizer("gradient_descent", 0.1)


def test_a_batch_that_is_taken_after_the_modification_is_one_of_the_dataset_and_is_not_trained():
    def run(peek_after):
        with programs.ascpipe():
            program = tensor_programs.Program(SOURCE, sgd, eval_source=SOURCE)
            batch = program.iterator.get_next()
            assert set(batch) == {"a", "b", "c", "label"}
            with programs.session() as session:
                session.run([program.iterator.initializer, tf.compat.v1.global_variables_initializer()])
                losses = []
                for step in range(8):
                    if step == peek_after:
                        np.testing.assert_equal(session.run(batch), SOURCE[step])
                        continue
                    losses.append(session.run([program.loss, program.train])[0])
                return losses

    trained = run(peek_after=3)
    assert len(trained) == 7
    assert trained[:3] == run(peek_after=7)[:3]


def test_an_initializer_that_is_made_after_the_modification_brings_ids():
    with programs.ascpipe():
        program = tensor_programs.Program(SOURCE, sgd)
        data = programs.dataset(SOURCE[6:]).prefetch(2)
        again = program.iterator.make_initializer(data)
        with programs.session() as session:
            session.run([program.iterator.initializer, tf.compat.v1.global_variables_initializer()])
            first = [session.run([program.loss, program.train])[0] for _ in SOURCE]
            session.run(again)
            np.testing.assert_equal(session.run([program.batch, program.train])[0], SOURCE[6])
            assert len(first) == 12


@pytest.mark.parametrize("structure", ["dict", "tuple", "list", "pair"])
def test_the_batch_of_a_channel_is_what_get_next_returned(structure):
    with programs.ascpipe():
        parameters = ConfigInitializer.get_instance().train_params_config
        assert parameters.get_target_batch(False) is None
        program = tensor_programs.Program(SOURCE, sgd, eval_source=SOURCE[::-1], structure=structure)
        _, read = tensor_programs.STRUCTURES[structure]
        with programs.session() as session:
            for is_training, iterator, source in ((True, program.iterator, SOURCE),
                                                  (False, program.eval_iterator, SOURCE[::-1])):
                label = read(parameters.get_target_batch(is_training))["label"]
                session.run([iterator.initializer, tf.compat.v1.global_variables_initializer()])
                np.testing.assert_equal(session.run(label), source[0]["label"])


def test_the_batch_of_a_channel_is_known_with_features_too():
    with programs.ascpipe():
        program = programs.Program(SOURCE, sgd)
        found = ConfigInitializer.get_instance().train_params_config.get_target_batch(True)
        assert found["label"] is program.batch["label"]
        assert ConfigInitializer.get_instance().train_params_config.get_target_batch(False) is None


def test_the_batch_of_a_channel_is_known_before_the_modification_too():
    with programs.ascpipe():
        parameters, before = ConfigInitializer.get_instance().train_params_config, []

        def merge():
            before.append(parameters.get_target_batch(True))
            do_merge_lookup()

        program = tensor_programs.Program(SOURCE, sgd, eval_source=SOURCE, merge=merge,
                                          modify=lambda: before.append(parameters.get_target_batch(False)))
        assert before[0]["label"] is program.batch["label"]
        assert before[1]["label"] is program.eval_batch["label"]


def test_a_graph_that_looks_up_tensors_is_never_given_the_batch_of_the_graph_that_was_modified_before_it():
    with programs.ascpipe():
        parameters, found = ConfigInitializer.get_instance().train_params_config, []
        tensor_programs.Program(SOURCE, sgd, eval_source=SOURCE)
        with tf.Graph().as_default() as graph:
            tensor_programs.Program(SOURCE, sgd, eval_source=SOURCE,
                                    modify=lambda: found.append(parameters.get_target_batch(False)))
            assert found[0]["label"].graph is graph


@pytest.mark.parametrize("again", [
    modify_graph_and_start_emb_cache, lambda: GraphModifierHook(modify_graph=False).begin(),
    lambda: GraphModifierHook(modify_graph=True).begin()], ids=["call", "starting hook", "modifying hook"])
def test_a_graph_that_was_modified_is_modified_once(again):
    with programs.ascpipe():
        program = tensor_programs.Program(SOURCE, sgd)
        ops = len(tf.compat.v1.get_default_graph().get_operations())
        again()
        assert len(tf.compat.v1.get_default_graph().get_operations()) == ops
        with programs.session() as session:
            session.run([program.iterator.initializer, tf.compat.v1.global_variables_initializer()])
            session.run(program.train)


CALLS = ("get_next", "make_initializable_iterator", "make_initializer", "modify", "modifying_hook", "starting_hook")
RARE_CALLS = ("make_one_shot_iterator", "from_string_handle", "get_next_as_optional")


@pytest.mark.timeout_s(240)
def test_no_order_of_two_calls_aborts_the_process():
    told = _asked(CALLS)
    for one in told:
        # Until the modification nothing submits ids, which a start needs.
        too_early = "starting_hook" in one["calls"] and not {"modify", "modifying_hook"} & {one["calls"][0]}
        assert one["ended"] == ("refused" if too_early else "trained"), one


@pytest.mark.long
@pytest.mark.timeout_s(900)
def test_no_order_of_two_rare_calls_aborts_the_process():
    for one in _asked((*CALLS, *RARE_CALLS)):
        if {"from_string_handle", "get_next_as_optional"} & set(one["calls"]):
            assert one["ended"] == "refused", one


def _asked(calls):
    daemon = DaemonProcess("asked")
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.programs.asked_iterators", *calls], cwd=ROOT,
            env=dict(os.environ, ASCPIPE_NAME=daemon.name), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            universal_newlines=True)
        out, err = process.communicate(timeout=800)
    finally:
        daemon.end()
    told = [json.loads(line) for line in out.splitlines()]
    assert process.returncode == 0, "after {}\n{}".format(told[-1:], err)
    ends = [one for one in told if "ended" in one]
    assert [tuple(one["calls"]) for one in ends] == list(itertools.product(calls, repeat=2))
    return ends
