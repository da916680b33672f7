"""Typical mistakes of new users end with an error whose last line says what to do, in the words of the program."""
import os
import re

import pytest
import tensorflow as tf
from tensorflow.python.framework import graph_util, graph_util_impl
from tensorflow.python.tools import freeze_graph

import ascpipe
import ascpipe.tf as asc
from ascpipe.checkpoint.retention import complete_checkpoints
from ascpipe.errors import ServingError, TableUseError
from ascpipe.tf.running import op_errors
from tests.support import forked_calls, tree
from tests.support.tensorflows import IS_TENSORFLOW_1
from tests.tf import programs, twin_programs

SOURCE = programs.batches(3)

pytestmark = [
    pytest.mark.usefixtures("forked_programs"),
    pytest.mark.filterwarnings("ignore:distutils Version classes")]  # of TensorFlow's import of graphs


def optimizer():
    return programs.OPTIMIZERS["adagrad"](0.1)


def last_line(error):
    return str(error).splitlines()[-1]


@pytest.mark.parametrize("begin, says, never", [
    (twin_programs.ascpipe, "Call asc.start() after the graph is built and before its first session.run()",
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
    with twin_programs.ascpipe():
        program = programs.Program(SOURCE, optimizer, start=False)
        with programs.session() as run:
            run.run(program.iterator.initializer)
            asc.start()
            with pytest.raises(tf.errors.FailedPreconditionError) as raised:
                run.run(program.rows)
    assert last_line(raised.value) == (
        "E205: The pipeline was not started when this session first ran, so the session knows no tables. Nothing was "
        "run. Call asc.start() after the graph is built, and make the session after it")


def test_a_graph_of_a_pipeline_that_was_stopped_is_told_to_be_built_again():
    with twin_programs.ascpipe():
        program = programs.Program(SOURCE, optimizer)
        with programs.session() as run:
            program.initialise(run)
            run.run(program.train)
            asc.shutdown()
            with pytest.raises(tf.errors.FailedPreconditionError) as raised:
                run.run(program.train)
            assert "E205: The pipeline was stopped by asc.shutdown()" in str(raised.value)
            # After the shutdown, nothing removes the line with which TensorFlow 2.15 ends the text.
            assert "build the graph again, and call asc.start()" in (
                last_line(raised.value) if IS_TENSORFLOW_1 else str(raised.value))


def test_a_function_that_is_looked_for_in_ascpipe_is_said_to_be_in_ascpipe_tf():
    with pytest.raises(AttributeError, match="no attribute 'init'.*import ascpipe.tf as asc"):
        ascpipe.init()
    with pytest.raises(ImportError):
        from ascpipe import create_table  # noqa: F401


def test_texts_in_the_place_of_ids_are_told_how_to_become_ids():
    data = tf.data.Dataset.from_tensor_slices({"words": ["a", "b"]}).batch(2)
    said = "'words' of the batch has dtype string.*to_hash_bucket_fast"
    with twin_programs.ascpipe(), pytest.raises(TypeError, match=said):
        data.map(asc.insert_function(asc.FeatureSpec("words", table_name="t")))


def test_a_feature_of_another_table_is_told_both_names():
    with twin_programs.ascpipe():
        spec = asc.FeatureSpec("a", table_name="user")
        batch = programs.dataset(SOURCE).map(asc.insert_function(spec)).make_one_shot_iterator().get_next()
        with pytest.raises(ValueError, match="E267: FeatureSpec 'a' belongs to table 'user', but is looked up in table "
                           "'users'. Pass table_name='users'"):
            asc.sparse_lookup(programs.table("users"), spec, batch=batch)


LOOPS = {
    "while_loop": lambda look, ids: tf.while_loop(
        lambda i, _: i < 3, lambda i, sum_: (i + 1, sum_ + look(ids[:, i])), [0, tf.zeros([6, programs.DIM])]),
    "map_fn": lambda look, ids: tf.map_fn(look, ids, tf.float32),
    "scan": lambda look, ids: tf.scan(lambda _, row: look(row), ids, tf.zeros([3, programs.DIM])),
    "function": lambda look, ids: tf.function(look)(ids)}


@pytest.mark.parametrize("kind", LOOPS)
def test_ids_that_the_turns_of_a_loop_make_are_told_to_be_looked_up_before_it(kind):
    with twin_programs.ascpipe():
        batch = tf.compat.v1.data.make_initializable_iterator(programs.dataset(SOURCE)).get_next()
        table = programs.table("user")
        with pytest.raises(ValueError, match="E267: The ids .* of table 'user' are computed in the body of a "
                           "(loop|function).*Look up all ids outside the body"):
            LOOPS[kind](lambda ids: asc.sparse_lookup(table, ids), batch["a"])


@pytest.mark.parametrize("message, text", [
    ("E205: One. Call a()\n\t [[node x (defined at y:1) ]]\nHint: z", "E205: One. Call a()"),
    ("2 root error(s) found.\n  (0) Failed precondition: E205: One\n\t [[node x]]\n\t [[y/_3]]\n  (1) Failed "
     "precondition: E205: One\n\t [[node x]]\n0 successful operations.\n0 derived errors ignored.", "E205: One"),
    ("2 root error(s) found.\n  (0) Resource exhausted: E320: Two\n\t [[node x]]\n  (1) Data loss: E301: A\nB\n\t "
     "[[node x]]\n0 successful operations.", "E320: Two\nE301: A\nB"),
    ("{{function_node __inference_map_7}} {{function_node f}} E205: In a dataset\n\t [[{{node AscSubmit}}]]\n\t [[node "
     "IteratorGetNext]]", "E205: In a dataset"),
    ("Graph execution error:\n\nDetected at node 'plans/_0' defined at (most recent call last):\n    File \"a.py\", "
     "line 1, in <module>\nNode: 'plans/_0'\nE205: One. Call a()\n\t [[{{node plans/_0}}]]\n\nOriginal stack trace for "
     "'x':\n  File \"a.py\", line 1, in <module>\n", "E205: One. Call a()"),
    ("Graph execution error:\n\nDetected at node 'a' defined at (most recent call last):\nNode: 'a'\n2 root error(s) "
     "found.\n  (0) FAILED_PRECONDITION:  E205: One\n\t [[{{node a}}]]\n  (1) FAILED_PRECONDITION:  E205: One\n\t "
     "[[{{node b}}]]\n\t [[c/_3]]\n0 successful operations.\n0 derived errors ignored.\n\nOriginal stack trace for 'a"
     "':\n", "E205: One"),
    ("ValueError: E205: of a program", ""), ("NaN\n\t [[node E205: x]]", "")])
def test_of_an_error_with_a_code_the_coded_text_is_shown_alone(message, text):
    assert op_errors.coded(message) == text


# ---- copies of a graph

@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A session of a program that trains, the name of an output that reads tables, one that does not, a checkpoint."""
    with twin_programs.ascpipe():
        program = programs.Program(SOURCE, optimizer)
        tf.identity(program.rows[1], name="rows")
        tf.identity(tf.compat.v1.trainable_variables()[0], name="dense_alone")
        with programs.session() as run:
            program.initialise(run)
            run.run(program.train)
            prefix = asc.Saver().save(run, str(tmp_path_factory.mktemp("copied") / "model"), 1)
            yield run, prefix
            run.run(program.train)


@pytest.mark.parametrize("convert", [module.convert_variables_to_constants for module in (
    tf.compat.v1.graph_util, graph_util, graph_util_impl) if hasattr(module, "convert_variables_to_constants")])
def test_a_graph_with_tables_is_not_frozen_to_constants(convert, saved):
    run, _ = saved
    with pytest.raises(TableUseError, match="Table 'user' .*Nothing was converted.*docs/how-to/saved_models.md"):
        convert(run, run.graph.as_graph_def(), ["rows"])
    assert [node.op for node in convert(run, run.graph.as_graph_def(), ["dense_alone"]).node][0] == "Const"


def _save_simply(run, folder, tensor):
    tf.compat.v1.saved_model.simple_save(run, folder, {"rows": tensor}, {"rows": tensor})


def _save_by_a_builder(run, folder, _):
    tf.compat.v1.saved_model.Builder(folder).add_meta_graph_and_variables(run, ["serve"])


@pytest.mark.parametrize("save", [_save_simply, _save_by_a_builder])
def test_a_graph_with_tables_is_not_saved_for_servers(save, saved, tmp_path):
    run, _ = saved
    with pytest.raises(ServingError, match="E275: .*no server can load.*asc.serving_tables.*in-a-session"), \
            run.graph.as_default():
        save(run, str(tmp_path / "model"), run.graph.get_tensor_by_name("rows:0"))
    assert not (tmp_path / "model" / "saved_model.pb").exists()


def test_a_checkpoint_may_have_the_name_of_the_variables_of_a_model(saved, tmp_path):
    run, _ = saved
    with run.graph.as_default():
        prefix = asc.Saver().save(run, str(tmp_path / "variables" / "variables"))
    assert [found.prefix for found in complete_checkpoints(str(tmp_path / "variables"))] == [prefix]


def test_freeze_graph_is_refused_with_the_same_words(saved, tmp_path):
    run, prefix = saved
    with tf.Graph().as_default(), pytest.raises(TableUseError, match="saved_models.md"):
        freeze_graph.freeze_graph_with_def_protos(
            run.graph.as_graph_def(), None, prefix, "rows", "", "", str(tmp_path / "frozen.pb"), True, "")


def test_a_graph_that_was_imported_is_told_to_be_built_by_the_code_of_the_program(saved):
    _, prefix = saved
    with tf.Graph().as_default(), programs.session() as run:
        saver = tf.compat.v1.train.import_meta_graph(prefix + ".meta")
        for act in (lambda: saver.restore(run, prefix), lambda: run.run("rows:0")):
            with pytest.raises(TableUseError, match="import_meta_graph.*was run. Build the graph with the code"):
                act()


LEFT_ON = """
import tensorflow as tf
import ascpipe.tf as asc
{}
try:
    asc.init()
except EnvironmentError as error:
    print(error)
tf.compat.v1.disable_v2_behavior()
with tf.Graph().as_default():
    asc.init()
    asc.shutdown()
"""


@pytest.mark.parametrize("behavior", [
    "tf.compat.v1.enable_v2_behavior()", "tf.compat.v1.enable_eager_execution()",
    "tf.compat.v1.enable_v2_behavior(); tf.compat.v1.disable_eager_execution()"])
def test_the_behavior_of_tensorflow_2_is_refused_with_the_line_to_add(behavior):
    code, out, err = forked_calls.python(["-W", "ignore", "-c", LEFT_ON.format(behavior)], tree.ROOT,
                                         dict(os.environ), 100.0)
    assert code == 0, err
    assert re.match(r"E262: asc.init\(\) was called while TensorFlow has the behavior of TensorFlow 2.* Nothing was "
                    r"started. Add this line after the import of TensorFlow: tf.compat.v1.disable_v2_behavior\(\) \("
                    "docs/how-to/tensorflow2.md\\)\n$", out)


IMPORTING = """
import sys
import tensorflow as tf
tf.compat.v1.disable_v2_behavior()
import ascpipe.tf as asc
from ascpipe.errors import TableUseError
asc.init()
tf.compat.v1.train.import_meta_graph(sys.argv[1])
try:
    tf.compat.v1.Session().run("rows:0")
except TableUseError as error:
    print(error)
"""


def test_an_import_without_the_ops_of_ascpipe_says_the_same_and_not_to_load_a_library(saved):
    _, prefix = saved
    code, out, err = forked_calls.python(["-W", "ignore", "-c", IMPORTING, prefix + ".meta"], tree.ROOT,
                                         dict(os.environ), 100.0)
    assert code == 0, err
    assert re.search("Table 'user' .*import_meta_graph.*Build the graph with the code", out)


def test_a_graph_without_tables_is_imported_beside_a_program(saved, tmp_path):
    with tf.Graph().as_default(), programs.session() as run:
        tf.compat.v1.Variable(3.0, use_resource=False, name="number")
        run.run(tf.compat.v1.global_variables_initializer())
        prefix = tf.compat.v1.train.Saver().save(run, str(tmp_path / "model"))
    with tf.Graph().as_default(), programs.session() as run:
        tf.compat.v1.train.import_meta_graph(prefix + ".meta").restore(run, prefix)
        assert run.run("number:0") == 3
