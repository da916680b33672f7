"""Typical mistakes of new users end with an error whose last line says what to do, in the words of the program."""
import contextlib

import pytest
import tensorflow as tf

import ascpipe
import ascpipe.tf as asc
from ascpipe.tf.running import op_errors
from tests.tf import programs

SOURCE = programs.batches(3)


@contextlib.contextmanager
def plain():
    """As ``programs.ascpipe``, of a program that calls ``ascpipe.tf``."""
    with tf.Graph().as_default():
        asc.init()
        try:
            yield
        finally:
            asc.shutdown()


def optimizer():
    return programs.OPTIMIZERS["adagrad"](0.1)


def last_line(error):
    return str(error).splitlines()[-1]


@pytest.mark.parametrize("begin, says, never", [
    (plain, "Call ascpipe.tf.start() after the graph is built and before its first session.run()",
     "asc_pipeline"),
    (programs.ascpipe, "Call start_asc_pipeline() (modify_graph_and_start_emb_cache() if lookups take tensors) after",
     "ascpipe.tf")], ids=["ascpipe.tf", "mx_rec"])
def test_a_forgotten_start_names_the_call_of_the_program_in_the_last_line(begin, says, never):
    with begin():
        program = programs.Program(SOURCE, optimizer, start=False)
        with programs.session() as run:
            run.run(program.iterator.initializer)
            with pytest.raises(tf.errors.FailedPreconditionError) as raised:
                run.run(program.rows)
        assert says in last_line(raised.value) and never not in str(raised.value)
        assert str(raised.value).startswith("E205: The pipeline was not started")


def test_a_session_that_ran_before_the_start_is_told_to_be_made_after_it():
    with plain():
        program = programs.Program(SOURCE, optimizer, start=False)
        with programs.session() as run:
            run.run(program.iterator.initializer)
            asc.start()
            with pytest.raises(tf.errors.FailedPreconditionError) as raised:
                run.run(program.rows)
    assert last_line(raised.value) == (
        "E205: The pipeline was not started when this session first ran, so the session knows no tables. Nothing was "
        "run. Call ascpipe.tf.start() after the graph is built, and make the session after it")


def test_a_graph_of_a_pipeline_that_was_stopped_is_told_to_be_built_again():
    with plain():
        program = programs.Program(SOURCE, optimizer)
        with programs.session() as run:
            program.initialise(run)
            run.run(program.train)
            asc.shutdown()
            with pytest.raises(tf.errors.FailedPreconditionError) as raised:
                run.run(program.train)
            assert "E205: The pipeline was stopped by ascpipe.tf.shutdown()" in str(raised.value)
            assert "build the graph again, and call ascpipe.tf.start()" in last_line(raised.value)


def test_a_function_that_is_looked_for_in_ascpipe_is_said_to_be_in_ascpipe_tf():
    with pytest.raises(AttributeError, match="no attribute 'init'.*import ascpipe.tf as asc"):
        ascpipe.init()
    with pytest.raises(ImportError):
        from ascpipe import create_table  # noqa: F401


@pytest.mark.parametrize("message, text", [
    ("E205: One. Call a()\n\t [[node x (defined at y:1) ]]\nHint: z", "E205: One. Call a()"),
    ("2 root error(s) found.\n  (0) Failed precondition: E205: One\n\t [[node x]]\n\t [[y/_3]]\n  (1) Failed "
     "precondition: E205: One\n\t [[node x]]\n0 successful operations.\n0 derived errors ignored.", "E205: One"),
    ("2 root error(s) found.\n  (0) Resource exhausted: E320: Two\n\t [[node x]]\n  (1) Data loss: E301: A\nB\n\t "
     "[[node x]]\n0 successful operations.", "E320: Two\nE301: A\nB"),
    ("{{function_node __inference_map_7}} {{function_node f}} E205: In a dataset\n\t [[{{node AscSubmit}}]]\n\t [[node "
     "IteratorGetNext]]", "E205: In a dataset"),
    ("ValueError: E205: of a program", ""), ("NaN\n\t [[node E205: x]]", "")])
def test_of_an_error_with_a_code_the_coded_text_is_shown_alone(message, text):
    assert op_errors.coded(message) == text
