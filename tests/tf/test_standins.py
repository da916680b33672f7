"""What stands for the packages of an Ascend server: iterations of one run, configurations, Estimators."""
import pytest
import tensorflow as tf

from ascpipe.tf.incumbent.ascend import npu_plugin
from ascpipe.tf.incumbent.ascend.estimator import (
    DumpConfig,
    NPUEstimator,
    NPUEstimatorSpec,
    NPURunConfig,
    ProfilingConfig,
    npu_config_proto,
    npu_distributed_optimizer_wrapper,
    npu_hooks_append,
    npu_run_config_init,
    npu_tf_optimizer,
)
from ascpipe.tf.incumbent.ascend.iterations import IterationPerLoop, set_iteration_per_loop
from tests.tf.estimators import Losses, event_files


class Counting:
    """Each run of ``train`` takes an element and adds it to ``total``; ``other`` only counts."""

    def __init__(self, elements=100):
        self.step = tf.compat.v1.train.get_or_create_global_step()
        self.total = tf.compat.v1.Variable(0, dtype=tf.int64, use_resource=False)
        self.other = tf.compat.v1.Variable(0, use_resource=False)
        self.count_other = self.other.assign_add(1)
        data = tf.data.Dataset.range(1, elements + 1)
        self.element = tf.compat.v1.data.make_one_shot_iterator(data).get_next()
        with tf.control_dependencies([self.total.assign_add(self.element)]):
            self.train = tf.group(self.step.assign_add(1))


@pytest.fixture
def counting():
    with tf.Graph().as_default():
        yield Counting()


def started():
    session = tf.compat.v1.Session()
    session.run(tf.compat.v1.global_variables_initializer())
    return session


def test_one_run_of_the_op_trains_all_its_iterations(counting):
    with started() as session:
        looped = set_iteration_per_loop(session, counting.train, 4)
        assert isinstance(looped, tf.Operation)
        assert session.run(looped) is None
        assert session.run([counting.step, counting.total]) == [4, 1 + 2 + 3 + 4]
        session.run(counting.train)  # the op that was given trains one, as before
        assert session.run(counting.step) == 5


def test_values_are_those_of_the_last_iteration_and_nothing_else_is_repeated(counting):
    with started() as session:
        looped = set_iteration_per_loop(session, counting.train, 3)
        fetched = session.run({"train": looped, "in": [counting.element, (counting.count_other,)]})
        assert fetched == {"train": None, "in": [3, (1,)]}
        assert session.run("{}".format(looped.name)) is None  # by its name
        assert session.run([counting.step, counting.other]) == [6, 1]


def test_what_needs_the_op_trains_as_many(counting):
    with started() as session:
        looped = set_iteration_per_loop(session, counting.train, 3)
        with tf.control_dependencies([looped]):
            after = tf.identity(counting.step.read_value())
        session.run(after)
        assert session.run(counting.step) == 3


def test_the_feeds_are_those_of_every_iteration(counting):
    amount = tf.compat.v1.placeholder(tf.int64, [])
    train = counting.total.assign_add(amount)
    with started() as session:
        looped = set_iteration_per_loop(session, train, 5)
        session.run(looped, {amount: 7})
        assert session.run(counting.total) == 35


def test_the_end_of_data_ends_the_run_and_what_came_before_it_is_trained():
    with tf.Graph().as_default():
        counting = Counting(elements=6)
        with started() as session:
            looped = set_iteration_per_loop(session, counting.train, 4)
            session.run(looped)
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run(looped)
            assert session.run([counting.step, counting.total]) == [6, 21]


def test_two_ops_have_their_own_numbers(counting):
    with started() as session:
        first = set_iteration_per_loop(session, counting.train, 4)
        second = set_iteration_per_loop(session, counting.count_other, 2)
        session.run([first, second])
        assert session.run([counting.step, counting.other]) == [4, 2]


def test_another_session_trains_one_iteration(counting):
    with started() as session, started() as other:
        looped = set_iteration_per_loop(session, counting.train, 4)
        other.run(looped)
        assert other.run(counting.step) == 1


def test_a_managed_session_trains_all_iterations_between_its_hooks(counting):
    iteration = IterationPerLoop()
    with pytest.raises(RuntimeError, match="create_iteration_per_loop_var"):
        iteration.load_iteration_per_loop_var(None, 2)
    looped = iteration.create_iteration_per_loop_var(counting.train)
    hooks = [tf.compat.v1.estimator.StopAtStepHook(last_step=6), Losses()]
    hooks[1].loss = counting.element
    with tf.compat.v1.train.MonitoredTrainingSession(hooks=hooks) as session:
        iteration.load_iteration_per_loop_var(session, 3)
        while not session.should_stop():
            session.run(looped)
    assert hooks[1].values == [3, 6]


def test_wrong_numbers_and_ops_are_refused(counting):
    with started() as session:
        for train, count in ((counting.train, 0), (counting.train, 2.0), ("train", 2), (counting.step, 2)):
            with pytest.raises(ValueError, match="argument|parameter"):
                set_iteration_per_loop(session, train, count)
        with pytest.raises(ValueError, match="parameter sess: None is NoneType, expected tf.Session"):
            set_iteration_per_loop(None, counting.train, 2)
        looped = set_iteration_per_loop(session, counting.train, 2)
        with pytest.raises(ValueError, match="make_callable"):
            session.make_callable(looped)
        assert session.make_callable(counting.element)() == 1


def model_fn(features, labels, mode, params):
    step = tf.compat.v1.train.get_global_step()
    weight = tf.compat.v1.get_variable("weight", [], initializer=tf.compat.v1.zeros_initializer())
    loss = tf.identity(tf.square(weight - params["target"]), name="the_loss")
    train = tf.compat.v1.train.GradientDescentOptimizer(0.25).minimize(loss, step)
    return NPUEstimatorSpec(mode, loss=loss, train_op=train)


class Seen(Losses):
    """Notes the loss of each run and the step after it."""

    def __init__(self):
        super().__init__()
        self.steps = []

    def begin(self):
        self.loss = tf.compat.v1.get_default_graph().get_tensor_by_name("the_loss:0")

    def after_run(self, run_context, run_values):
        super().after_run(run_context, run_values)
        self.steps.append(run_context.session.run(tf.compat.v1.train.get_global_step()))


def estimator(folder, iterations):
    config = NPURunConfig(iterations_per_loop=iterations, model_dir=str(folder), save_summary_steps=0)
    return NPUEstimator(model_fn, config=config, params={"target": 8.0})


def trained(made, elements=1000, **limits):
    seen = Seen()
    with event_files():
        made.train(lambda: tf.data.Dataset.range(elements).map(lambda x: (x, x)), hooks=[seen], **limits)
    return seen


def test_hooks_of_an_estimator_are_called_once_for_its_iterations(tmp_path):
    one = trained(estimator(tmp_path / "one", 1), max_steps=6)
    three = trained(estimator(tmp_path / "three", 3), max_steps=6)
    assert (one.steps, three.steps) == ([1, 2, 3, 4, 5, 6], [3, 6])
    assert three.values == one.values[2::3]


@pytest.mark.parametrize("limits", [{"max_steps": 7}, {"steps": 7}])
def test_the_last_run_is_as_short_as_it_must_be(tmp_path, limits):
    made = estimator(tmp_path, 3)
    assert trained(made, **limits).steps == [3, 6, 7]
    assert made.get_variable_value("global_step") == 7


def test_steps_count_from_where_training_goes_on(tmp_path):
    made = estimator(tmp_path, 3)
    assert trained(made, steps=4).steps == [3, 4]
    assert trained(made, steps=4).steps == [7, 8]


def test_train_and_evaluate_makes_the_steps_it_is_told(tmp_path):
    made = estimator(tmp_path, 4)
    data = lambda: tf.data.Dataset.range(1000).map(lambda x: (x, x))  # noqa: E731
    with event_files():
        tf.compat.v1.estimator.train_and_evaluate(made, tf.compat.v1.estimator.TrainSpec(data, max_steps=10),
                                        tf.compat.v1.estimator.EvalSpec(data, steps=2))
    assert made.get_variable_value("global_step") == 10


def test_the_configuration_keeps_what_tensorflow_knows_and_drops_the_rest(tmp_path):
    session_config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=1)
    config = NPURunConfig(
        iterations_per_loop=2, model_dir=str(tmp_path), save_checkpoints_steps=5, keep_checkpoint_max=3,
        session_config=session_config, precision_mode="allow_fp32_to_fp16", hcom_parallel=True,
        profiling_config=ProfilingConfig(enable_profiling=True, profiling_options="x"),
        dump_config=DumpConfig(enable_dump=True, dump_path="x"), graph_memory_max_size=None)
    assert isinstance(config, tf.compat.v1.estimator.RunConfig)
    assert (config.iterations_per_loop, config.model_dir) == (2, str(tmp_path))
    assert (config.save_checkpoints_steps, config.keep_checkpoint_max) == (5, 3)
    assert config.session_config is session_config
    assert config.replace(keep_checkpoint_max=9).iterations_per_loop == 2
    assert NPURunConfig().iterations_per_loop == 1
    with pytest.raises(ValueError, match="iterations_per_loop"):
        NPURunConfig(iterations_per_loop=0)


def test_a_session_that_asks_for_a_card_s_optimizer_runs():
    config = npu_config_proto(tf.compat.v1.ConfigProto())
    asked = config.graph_options.rewrite_options.custom_optimizers.add()
    asked.name = "NpuOptimizer"
    asked.parameter_map["use_off_line"].b = True
    asked.parameter_map["precision_mode"].s = b"allow_mix_precision"
    with tf.Graph().as_default(), tf.compat.v1.Session(config=config) as session:
        assert session.run(tf.reduce_sum(tf.constant([1.0, 2.0]) * 3)) == 9


def test_what_only_several_ranks_or_a_card_need_gives_back_what_it_was_given():
    hooks, something = [object()], object()
    assert npu_hooks_append(hooks_list=hooks) is hooks
    assert npu_hooks_append() == []
    assert npu_tf_optimizer(something) is npu_distributed_optimizer_wrapper(something) is something
    config = tf.compat.v1.estimator.RunConfig()
    assert npu_run_config_init(run_config=config) is config
    assert isinstance(npu_run_config_init(), tf.compat.v1.estimator.RunConfig)
    assert isinstance(npu_config_proto(), tf.compat.v1.ConfigProto)
    npu_plugin.set_device_sat_mode(0)
    npu_plugin.npu_resource_init()
    npu_plugin.npu_resource_shutdown()
