"""``sparse_lookup`` and the completion of a graph, by the graph's structure; nothing runs."""
import pytest
import tensorflow as tf

from ascpipe.tf.graph.features import FeatureSpec
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.table_lookup import MAX_LOOKUPS
from ascpipe.tf.optimizers import adagrad
from ascpipe.tf.program.create_table import create_table
from ascpipe.tf.program.insert_function import get_asc_insert_func
from ascpipe.tf.program.sparse_lookup import sparse_lookup
from ascpipe.tf.program.tensor_lookups import do_merge_lookup
from ascpipe.tf.running.process import Process, init, terminate_config_initializer
from ascpipe.tf.starting.graph_checks import require_startable
from ascpipe.tf.starting.plan_ops import complete_graph, slots_of_training_tables
from ascpipe.tf.starting.start_pipeline import start_asc_pipeline
from ascpipe.tf.starting.training_checks import require_safe_training
from tests.support.tensorflows import IS_TENSORFLOW_1


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        init()
        yield graph
        if Process.is_initialised():
            terminate_config_initializer()


def table(name="user", dim=4):
    return create_table(key_dtype=tf.int64, dim=dim, name=name, emb_initializer=tf.compat.v1.ones_initializer(),
                        device_vocabulary_size=50)


def get_next(specs, training=True, batch=None, stages=lambda data: data.prefetch(2)):
    """A batch whose features lie under the given names of the specs."""
    if batch is None:
        batch = {key: tf.zeros([3, 2], tf.int64) for key in "abc"}
    data = tf.data.Dataset.from_tensors(batch).repeat()
    data = stages(data.map(get_asc_insert_func(specs, is_training=training)))
    return tf.compat.v1.data.make_initializable_iterator(data).get_next()


def specs_of(table, *keys):
    return [FeatureSpec(key, table_name=table.table_name, index_key=key) for key in keys]


def state(graph):
    return GraphState.of(graph)


class TestResult:
    def test_it_has_the_shape_of_the_ids_and_the_dimension_and_the_given_name(self):
        user = table()
        (spec,) = specs_of(user, "a")
        batch = get_next([spec])
        with tf.name_scope("tower"):
            result = sparse_lookup(user, spec, is_train=True, name="mine", batch=batch, dim=None)
        assert (result.dtype, result.shape.as_list(), result.op.name) == (tf.float32, [3, 2, 4], "tower/mine")

    def test_a_list_of_one_feature_is_that_feature_and_a_longer_one_is_refused(self):
        user = table()
        first, second = specs_of(user, "a", "b")
        batch = get_next([first, second])
        assert sparse_lookup(user, [first], batch=batch).shape.as_list() == [3, 2, 4]
        for wrong in ([first, second], [], ["a"]):
            with pytest.raises(ValueError, match="with a list of {} ids, expected a list of one".format(len(wrong))):
                sparse_lookup(user, wrong, batch=batch)

    def test_lookups_of_a_table_are_outputs_of_one_op(self, graph):
        user = table()
        first, second = specs_of(user, "a", "b")
        batch = get_next([first, second])
        for spec in (second, first, second):
            sparse_lookup(user, spec, batch=batch)
        (op,) = [op for op in graph.get_operations() if op.type == "AscLookup"]
        assert op.get_attr("k") == 2
        assert op.inputs[0] is user.variable._ref()
        assert not op.control_inputs

    def test_it_may_be_called_inside_scopes_conditionals_and_under_devices(self, graph):
        user = table()
        (spec,) = specs_of(user, "a")
        batch = get_next([spec])
        with tf.control_dependencies([tf.no_op()]), tf.device("/device:GPU:0"):
            result = tf.cond(tf.constant(True), lambda: sparse_lookup(user, spec, batch=batch),
                             lambda: tf.zeros([3, 2, 4]))
        (op,) = [op for op in graph.get_operations() if op.type == "AscLookup"]
        assert (op.device, op.control_inputs, op._get_control_flow_context()) == ("/device:CPU:0", [], None)
        assert tf.gradients(result, user.variable)[0].values.op.type == "AscLookupGrad"

    def test_a_default_row_is_the_lookup_ops_in_evaluation_and_put_in_afterwards_in_training(self, graph):
        user = table()
        (train,), (evaluate,) = specs_of(user, "a"), specs_of(user, "a")
        batch, eval_batch = get_next([train]), get_next([evaluate], training=False)
        trained = sparse_lookup(user, train, batch=batch, serving_default_value=tf.ones([4]))
        assert trained.shape.as_list() == [3, 2, 4]
        sparse_lookup(user, evaluate, is_train=False, batch=eval_batch, serving_default_value=0.5)
        sparse_lookup(user, evaluate, is_train=False, batch=eval_batch, serving_default_value=[[1.0, 2.0, 3.0, 4.0]])
        ops = [op for op in graph.get_operations() if op.type == "AscLookup"]
        assert [op.inputs[-1].shape.as_list() for op in ops] == [[], [], [], [4]]
        with pytest.raises(ValueError, match="serving_default_value"):
            sparse_lookup(user, evaluate, is_train=False, batch=eval_batch, serving_default_value=[1.0, 2.0])


class TestRefusals:
    def test_arguments_have_rules(self):
        user = table()
        (spec,) = specs_of(user, "a")
        batch = get_next([spec])
        for kwargs in ({"hashtable": "user"}, {"ids": "a"}, {"ids": tf.SparseTensor([[0]], [1], [1])},
                       {"send_count": 0}, {"send_count": 1.0}, {"send_count": 2 ** 31}, {"is_train": 1}, {"name": ""},
                       {"name": "x" * 256}, {"modify_graph": 0}, {"is_grad": None}, {"access_and_evict_config": 1},
                       {"access_and_evict_config": {"access_threshold": -2}},
                       {"access_and_evict_config": {"eviction_threshold": 1}},  # and no timestamp
                       {"access_and_evict_config": {"eviction_threshold": 2.5}},
                       {"access_and_evict_config": {"access_threshold": 1, "faae_coefficient": 0}}):
            with pytest.raises(ValueError):
                sparse_lookup(**{"hashtable": user, "ids": spec, "batch": batch, **kwargs})

    def test_a_tensor_needs_graph_modification(self):
        with pytest.raises(ValueError, match="modify_graph"):
            sparse_lookup(table(), tf.zeros([3], tf.int64))

    def test_a_feature_of_another_table_is_refused(self):
        user, item = table(), table("item")
        (spec,) = specs_of(user, "a")
        with pytest.raises(ValueError, match="'user'.*'item'"):
            sparse_lookup(item, spec, batch=get_next([spec]))

    def test_dynamic_shapes_need_a_batch_with_the_feature(self):
        user = table()
        (spec,) = specs_of(user, "a")
        batch = get_next([spec])
        with pytest.raises(RuntimeError, match="batch="):
            sparse_lookup(user, spec)
        with pytest.raises(KeyError, match="'a'"):
            sparse_lookup(user, spec, batch={"b": batch["b"]})

    def test_static_shapes_need_a_send_count_and_find_the_batch_themselves(self, graph):
        terminate_config_initializer()
        init(use_dynamic=False)
        user = table()
        (spec,) = specs_of(user, "a")
        batch = get_next([spec])
        with pytest.raises(ValueError, match="send_count"):
            sparse_lookup(user, spec, batch=batch)
        assert sparse_lookup(user, spec, 100).shape.as_list() == [3, 2, 4]
        assert state(graph).lookups["user", 0].ticket is batch["c_read_emb_key"]

    def test_several_get_next_need_the_batch_to_be_named(self):
        terminate_config_initializer()
        init(use_dynamic=False)
        user = table()
        (spec,) = specs_of(user, "a")
        data = tf.data.Dataset.from_tensors({"a": [1, 2]}).map(get_asc_insert_func(spec))
        iterator = tf.compat.v1.data.make_one_shot_iterator(data)
        iterator.get_next()
        batch = iterator.get_next()
        with pytest.raises(ValueError, match="batch="):
            sparse_lookup(user, spec, 10)
        sparse_lookup(user, spec, 10, batch={"a": batch["a"] + 1})

    def test_a_batch_of_another_iterator_is_refused(self):
        user = table()
        spec, other = specs_of(user, "a", "b")
        get_next([spec])
        with pytest.raises(ValueError, match="batch="):
            sparse_lookup(user, spec, batch=get_next([other]))

    def test_a_feature_that_no_dataset_carries_is_refused(self):
        user = table()
        spec, lost = specs_of(user, "a", "x")
        batch = get_next([spec, lost])
        with pytest.raises(ValueError, match="has no insert function for training"):
            sparse_lookup(user, lost, batch=(batch["a"],))
        with pytest.raises(ValueError, match="has no insert function for evaluation"):
            sparse_lookup(user, spec, is_train=False, batch=batch)

    def test_a_stage_that_breaks_the_order_is_named_at_the_lookup(self):
        user = table()
        (spec,) = specs_of(user, "a")
        batch = get_next([spec], stages=lambda data: data.shuffle(3))
        with pytest.raises(ValueError, match="ShuffleDataset"):
            sparse_lookup(user, spec, batch=batch)

    def test_the_129th_lookup_of_a_channel_is_a_runtime_error(self):
        user = table()
        (train,), (evaluate,) = specs_of(user, "a"), specs_of(user, "a")
        batch, eval_batch = get_next([train]), get_next([evaluate], training=False)
        for _ in range(MAX_LOOKUPS):
            sparse_lookup(user, train, batch=batch)
        with pytest.raises(RuntimeError, match="128"):
            sparse_lookup(user, train, batch=batch)
        sparse_lookup(user, evaluate, is_train=False, batch=eval_batch)

    def test_a_table_of_another_graph_is_refused(self):
        user = table()
        with tf.Graph().as_default():
            (spec,) = specs_of(user, "a")
            with pytest.raises(ValueError, match="another graph"):
                sparse_lookup(user, spec, batch=get_next([spec]))

    def test_thresholds_of_a_lookup_are_those_of_the_table_and_agree_with_its_features(self, graph):
        user, item = table(), table("item")
        specs = [*specs_of(user, "a", "b"), FeatureSpec("c", table_name="item", access_threshold=3)]
        batch = get_next(specs)
        config = {"access_threshold": 5, "faae_coefficient": 2}
        sparse_lookup(user, specs[0], batch=batch, access_and_evict_config=config)
        sparse_lookup(user, specs[1], batch=batch)
        sparse_lookup(user, specs[1], batch=batch, access_and_evict_config=dict(config))
        assert state(graph).thresholds.of("user") == (5, -1, 2)
        assert state(graph).thresholds.of("item") == (3, -1, 1)
        with pytest.raises(ValueError, match="lookup 'sparse_lookup_1' and sparse_lookup 'b_rows' of table 'user' have "
                                             "different thresholds"):
            sparse_lookup(user, specs[1], batch=batch, access_and_evict_config={"access_threshold": 4}, name="b_rows")
        with pytest.raises(ValueError, match="different thresholds"):
            sparse_lookup(item, specs[2], batch=batch, access_and_evict_config={"access_threshold": 4})

    def test_static_shapes_of_a_table_with_host_rows_need_a_device_of_send_count_rows(self):
        terminate_config_initializer()
        init(use_dynamic=False)
        user = create_table(tf.int64, 4, "user", tf.compat.v1.ones_initializer(), device_vocabulary_size=50,
                            host_vocabulary_size=60)
        (spec,) = specs_of(user, "a")
        batch = get_next([spec])
        with pytest.raises(ValueError, match="send_count 51, which exceeds device_vocabulary_size 50"):
            sparse_lookup(user, spec, 51, batch=batch)
        sparse_lookup(user, spec, 50, batch=batch)

    def test_sparse_ids_need_the_batch_as_the_dataset_gave_it(self):
        user = table()
        (spec,) = specs_of(user, "a")
        batch = get_next([spec], batch={"a": tf.SparseTensor([[0, 1], [2, 0]], tf.constant([5, 6], tf.int64), [3, 2])})
        with pytest.raises(ValueError, match="sparse"):
            sparse_lookup(user, spec, batch={"a": tf.sparse.to_dense(batch["a"])})
        assert sparse_lookup(user, spec, batch=batch).shape.as_list() == (
            [None, None, 4] if IS_TENSORFLOW_1 else [3, 2, 4])

    def test_merging_lookups_by_hand_does_nothing(self):
        do_merge_lookup()
        do_merge_lookup(is_train=False)


class TestGradient:
    def test_it_runs_over_the_lookups_in_the_order_in_which_they_were_made(self):
        user = table()
        first, second, third = specs_of(user, "a", "b", "c")
        batch = get_next([first, second, third])
        rows = [sparse_lookup(user, spec, batch=batch) for spec in (third, first, second)]
        (gradient,) = tf.gradients(tf.add_n(rows), [user.variable])
        op = gradient.values.op
        assert op.type == "AscLookupGrad"
        lookup = rows[0].op.inputs[0].op
        assert list(op.inputs)[1:4] == [lookup.inputs[2 + place] for place in (2, 0, 1)]
        assert gradient.indices is op.outputs[1]
        assert tf.get_static_value(gradient.dense_shape).tolist() == [50, 4]

    def test_lookups_that_no_loss_depends_on_do_not_train_their_keys(self):
        user = table()
        first, second, third = specs_of(user, "a", "b", "c")
        batch = get_next([first, second, third])
        used = sparse_lookup(user, first, batch=batch)
        sparse_lookup(user, second, batch=batch)
        frozen = sparse_lookup(user, third, batch=batch, is_grad=False)
        (gradient,) = tf.gradients([used, frozen], [user.variable])
        assert gradient.values.op.get_attr("k") == 1

    def test_without_any_gradient_there_is_none(self):
        user = table()
        (spec,) = specs_of(user, "a")
        frozen = sparse_lookup(user, spec, batch=get_next([spec]), is_grad=False)
        assert tf.gradients(frozen, [user.variable]) == [None]

    def test_compute_gradients_and_a_gather_of_the_rows_reach_the_variable(self):
        user = table()
        (spec,) = specs_of(user, "a")
        rows = sparse_lookup(user, spec, batch=get_next([spec]))
        loss = tf.reduce_sum(tf.gather(rows, [0, 0]))
        (pair,) = tf.compat.v1.train.GradientDescentOptimizer(0.1).compute_gradients(loss, [user.variable])
        assert pair[0].values.op.type == "AscLookupGrad"


def complete(graph):
    """What the start of the pipeline does with a graph."""
    of_graph = state(graph)
    of_graph.slots = slots_of_training_tables(of_graph)
    complete_graph(of_graph)


class TestCompletion:
    def model(self, training=True, evaluation=True):
        user, item = table(), table("item")
        for is_train in [True] * training + [False] * evaluation:
            specs = specs_of(user, "a", "b") + specs_of(item, "c")
            batch = get_next(specs, training=is_train)
            rows = [sparse_lookup(owner, spec, is_train=is_train, batch=batch)
                    for owner, spec in zip((user, user, item), specs)]
            if is_train:
                loss = tf.add_n([tf.reduce_sum(row) for row in rows])
                optimizer = adagrad.create_hash_optimizer(0.1, initial_accumulator_value=0.5)
                optimizer.apply_gradients(
                    zip(tf.gradients(loss, [user.variable, item.variable]), [user.variable, item.variable]))
        return user, item

    def test_real_plans_with_every_slot_variable_take_the_place_of_the_provisional_ones(self, graph):
        user, _ = self.model()
        complete(graph)
        ops = graph.get_operations()
        plans = [op for op in ops if op.type == "AscNextPlan"]
        assert [(op.get_attr("training"), op.get_attr("n_state"), op.get_attr("k"), op.get_attr("slot_initial"))
                for op in plans] == [(True, 2, 2, [0.5]), (True, 2, 1, [0.5]), (False, 1, 2, []), (False, 1, 1, [])]
        assert plans[0].inputs[1] is user.variable._ref()
        assert plans[0].inputs[2].op.name == "user/Adagrad_0/accumulator"
        for op in ops:
            if op.type == "AscProvisionalPlan":
                assert not any(output.consumers() for output in op.outputs)
            if op.type in ("AscLookup", "AscLookupGrad"):
                assert "AscNextPlan" in {tensor.op.type for tensor in op.inputs}

    @pytest.mark.parametrize("training", [True, False])
    def test_the_initializer_resets_a_table_only_in_a_graph_that_trains_it(self, training, graph):
        user, _ = self.model(training=training)
        complete(graph)
        assert user.variable.initial_value.op.get_attr("training") is training

    def test_after_the_start_nothing_that_trains_can_be_added(self, graph):
        user, _ = self.model()
        state(graph).started = True
        (spec,) = specs_of(user, "a")
        lookup = state(graph).lookups["user", 0]
        with pytest.raises(RuntimeError, match="started"):
            sparse_lookup(user, lookup.specs[0], batch=[lookup.ticket])
        with pytest.raises(RuntimeError, match="started"):
            get_next([spec])
        (gradient,) = tf.gradients(tf.reduce_sum(lookup.ops[0].outputs[0]), [user.variable])
        with pytest.raises(RuntimeError, match="slot variable"):
            adagrad.create_hash_optimizer(0.1).apply_gradients([(gradient, user.variable)])


class TestChecksBeforeTheStart:
    def test_before_init_it_is_an_environment_error(self):
        terminate_config_initializer()
        with pytest.raises(EnvironmentError):
            start_asc_pipeline()

    def test_no_table_and_no_insert_function_are_runtime_errors(self):
        with pytest.raises(RuntimeError, match="create_table"):
            start_asc_pipeline()
        table()
        with pytest.raises(RuntimeError, match="get_asc_insert_func"):
            start_asc_pipeline()

    def test_features_of_tables_that_were_not_created_are_left_out_but_not_all_of_them(self, graph):
        user = table()
        get_next([*specs_of(user, "a"), FeatureSpec("b", table_name="nobody", index_key="b")])
        require_startable(state(graph))
        get_next([FeatureSpec("b", table_name="nobody", index_key="b")], training=False)
        with pytest.raises(ValueError, match="nobody"):
            require_startable(state(graph))

    @pytest.mark.parametrize("training", [True, False])
    def test_a_table_in_two_streams_of_a_channel_is_refused(self, training, graph):
        user = table()
        get_next(specs_of(user, "a"), training=training)
        get_next(specs_of(user, "b"), training=training)
        with pytest.raises(ValueError, match="two streams"):
            require_startable(state(graph))

    def test_two_iterators_over_one_training_insert_function_are_refused(self, graph):
        user = table()
        data = tf.data.Dataset.from_tensors({"a": [1, 2]}).map(get_asc_insert_func(specs_of(user, "a")))
        for _ in range(2):
            tf.compat.v1.data.make_one_shot_iterator(data).get_next()
        with pytest.raises(ValueError, match="E266: Iterators .* both take batches of one training insert function"):
            require_startable(state(graph))

    def test_a_feature_that_is_never_looked_up_is_walked_too(self, graph):
        user = table()
        get_next(specs_of(user, "a"), stages=lambda data: data.cache())
        with pytest.raises(ValueError, match="CacheDataset"):
            require_startable(state(graph))

    def test_a_table_whose_lookups_all_have_no_gradient_is_a_runtime_error(self, graph):
        user = table()
        (spec,) = specs_of(user, "a")
        sparse_lookup(user, spec, batch=get_next([spec]), is_grad=False)
        with pytest.raises(RuntimeError, match="is_grad=False"):
            require_safe_training(state(graph))

    def test_a_finalized_graph_is_refused(self, graph):
        user = table()
        get_next(specs_of(user, "a"))
        tf.compat.v1.train.Supervisor(logdir=None)
        with pytest.raises(RuntimeError, match="finalized.*Supervisor finalizes the graph when it is created: call "
                                               "start_asc_pipeline"):
            start_asc_pipeline()
