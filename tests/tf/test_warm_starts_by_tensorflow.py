"""TensorFlow's own functions that begin with a checkpoint leave no table with its initial rows in silence."""
import logging

import pytest
import tensorflow as tf
from tensorflow.python.training.warm_starting_util import warm_start

import ascpipe.tf as asc
from ascpipe.errors import SaverError
from ascpipe.tf import patches
from tests.tf import programs

v1 = tf.compat.v1
SOURCE = programs.batches(6)


class Built(programs.Program):
    """The program whose variables and tables begin as ``begin`` says, which is called when the graph is complete."""

    def __init__(self, begin):
        super().__init__(SOURCE, lambda: programs.optimizer("adagrad", 0.1), start=False)
        self.load = begin(self)
        asc.start()

    def losses(self, run, count):
        self.initialise(run)
        if self.load is not None:
            self.load(run)
        return [float(run.run([self.loss, self.train])[0]) for _ in range(count)]


def losses(begin, count=2):
    with programs.ascpipe():
        program = Built(begin)
        with programs.session() as run:
            return program.losses(run, count)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, request):
    """Prefix of a checkpoint of three steps."""
    with programs.ascpipe():
        program = Built(lambda program: None)
        with programs.session() as run:
            program.losses(run, 3)
            return v1.train.Saver().save(run, str(tmp_path_factory.mktemp("trained") / "model"), 3)


@pytest.fixture(autouse=True)
def _trained_by_the_daemon_of_a_test(trained):
    """The checkpoint is there before the test."""


def refused(begin, pattern):
    with programs.ascpipe(), pytest.raises(SaverError, match=pattern):
        Built(begin)


@pytest.mark.parametrize("wanted, tables", [
    (".*", "'user', 'item'"), ("user|dense", "'user'"), (["user", "dense/weights"], "'user'"),
    (lambda program: [program.item.variable, *v1.trainable_variables()], "'item'")], ids=str)
def test_a_warm_start_that_selects_tables_is_refused(wanted, tables, trained):
    refused(lambda program: v1.train.warm_start(trained, wanted(program) if callable(wanted) else wanted),
            "E272: .*selects the tables {}, .*Nothing was changed.*ascpipe.tf.warm_start".format(tables))


def test_a_program_that_took_the_function_from_its_module_is_refused_too(trained):
    refused(lambda program: warm_start(trained), "E272: .*selects the tables 'user', 'item'")


def test_a_program_that_has_used_an_estimator_before_is_refused_too(trained):
    patches.ESTIMATORS.use()
    refused(lambda program: v1.train.warm_start(trained), "E272: .*selects the tables 'user', 'item'")


@pytest.mark.parametrize("order", [["ours", "tensorflow"], ["ours"]])
def test_a_warm_start_of_tables_by_ascpipe_allows_one_of_variables_by_tensorflow(order, trained):
    def begin(program):
        load = asc.warm_start(trained, ".*" if order == ["ours"] else ["user", "item"])
        if "tensorflow" in order:
            v1.train.warm_start(trained)
        return load

    assert losses(begin) == losses(lambda program: asc.warm_start(trained))


def test_a_warm_start_of_variables_alone_leaves_the_tables(trained, caplog):
    found = losses(lambda program: v1.train.warm_start(trained, "dense"))
    assert found == losses(lambda program: asc.warm_start(trained, v1.trainable_variables()) and None)
    assert found not in (losses(lambda program: None), losses(lambda program: asc.warm_start(trained)))
    (line,) = [line for line in caplog.messages if "init_from_checkpoint" in line]
    assert "rows of the tables 'user', 'item'" in line
    assert "load = ascpipe.tf.warm_start()" in line


def test_values_of_a_scope_are_refused_where_the_checkpoint_has_tables_of_the_graph(trained):
    def begin(program):
        v1.train.init_from_checkpoint(trained, {"dense/": "dense/"})

    refused(begin, "E272: .*rows of the tables 'user', 'item' in .*scope 'dense/'.*ascpipe.tf.warm_start")
    assert losses(lambda program: (asc.warm_start(trained, ["user", "item"]), begin(program))[0]) == losses(
        lambda program: asc.warm_start(trained))


def test_values_of_variables_are_taken_with_a_warning_that_names_the_tables(trained, caplog):
    caplog.set_level(logging.WARNING)
    found = losses(lambda program: v1.train.init_from_checkpoint(
        trained, {variable.op.name: variable for variable in v1.trainable_variables()}))
    assert found == losses(lambda program: asc.warm_start(trained, v1.trainable_variables()) and None)
    assert len([line for line in caplog.messages if "rows of the tables 'user', 'item'" in line]) == 1


def test_a_checkpoint_without_tables_begins_the_variables_as_in_tensorflow(trained, tmp_path, caplog):
    with tf.Graph().as_default(), programs.session() as run:
        with v1.variable_scope("dense"):
            weights = v1.get_variable("weights", [3 * programs.DIM, 1], initializer=v1.ones_initializer())
        run.run(weights.initializer)
        plain = v1.train.Saver().save(run, str(tmp_path / "plain"))
    found = losses(lambda program: v1.train.init_from_checkpoint(plain, {"dense/": "dense/"}))
    assert found == losses(lambda program: v1.train.warm_start(plain, "dense")) != losses(lambda program: None)
    assert not [line for line in caplog.messages if "init_from_checkpoint" in line]
