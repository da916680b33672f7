"""Every argument of the reference's tables, and the error it names."""
import numpy as np
import pytest
import tensorflow as tf

from ascpipe.tf.graph.features import FeatureSpec
from ascpipe.tf.incumbent.getters_and_setters import get_dense_and_sparse_variable
from ascpipe.tf.optimizers import adagrad, ftrl, gradient_descent, lazy_adam
from ascpipe.tf.program.create_table import create_table
from ascpipe.tf.program.insert_function import get_asc_insert_func
from ascpipe.tf.running.process import Process, init, terminate_config_initializer
from ascpipe.tf.validation import MAX_INT32


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph
    if Process.is_initialised():
        terminate_config_initializer()


def refused(fragment, call, **kwargs):
    with pytest.raises(ValueError, match=fragment):
        call(**kwargs)


STEPS = ["max_steps", "train_steps", "eval_steps", "save_steps"]
FLAGS = ["if_load", "use_dynamic", "use_dynamic_expansion", "bind_cpu", "use_lccl", "is_incremental_checkpoint"]


class TestInit:
    @pytest.mark.parametrize("name", STEPS)
    @pytest.mark.parametrize("value, fragment", [
        (-2, "is less than"), (MAX_INT32 + 1, "is bigger than"), ("1", "is not int"), (1.0, "is not int"),
        (True, "is not int"), (None, "is not int")])
    def test_a_step_count_out_of_range_is_refused(self, name, value, fragment):
        refused(fragment, init, **{name: value})
        assert not Process.is_initialised()

    @pytest.mark.parametrize("name", FLAGS)
    @pytest.mark.parametrize("value", [1, "True", None])
    def test_a_flag_that_is_no_bool_is_refused(self, name, value):
        refused("Invalid parameter type of para", init, **{name: value})

    @pytest.mark.parametrize("name, value, fragment", [
        ("save_checkpoint_due_time", 0, "is less than"), ("save_delta_checkpoints_secs", 0, "is less than"),
        ("restore_model_version", -1, "is less than"), ("recent_key_count_threshold", -1, "is less than"),
        ("save_checkpoint_due_time", MAX_INT32 + 1, "is bigger than"), ("restore_model_version", 0.5, "is not int")])
    def test_checkpoint_arguments_have_ranges(self, name, value, fragment):
        refused(fragment, init, **{name: value})

    def test_all_step_counts_zero_is_refused(self):
        refused("all 0", init, max_steps=0, train_steps=0, eval_steps=0)

    def test_the_seeds_arguments_are_accepted_and_need_not_be_right(self):
        init(max_steps=200, train_steps=100, eval_steps=10, save_steps=100, use_dynamic=False,
             use_dynamic_expansion=False, if_load=True, bind_cpu=False)
        assert Process.current().configuration.use_static
        assert Process.current().configuration.if_load

    def test_older_names_and_unknown_ones_are_accepted(self):
        init(use_mpi=True, train_interval=100, eval_steps=10, prefetch_batch_number=1, use_hot=False, something=1)
        assert Process.current().configuration.train_steps == 100

    def test_a_second_init_is_an_environment_error_until_the_first_is_ended(self):
        init()
        with pytest.raises(EnvironmentError):
            init()
        terminate_config_initializer()
        init()

    def test_terminate_is_quiet_before_init_and_when_called_twice(self):
        terminate_config_initializer()
        init()
        terminate_config_initializer()
        terminate_config_initializer()
        with pytest.raises(EnvironmentError):
            Process.current()

    @pytest.mark.parametrize("given", [{}, {"save_checkpoint_due_time": 60}, {"save_delta_checkpoints_secs": 5}])
    def test_incremental_checkpoints_need_both_intervals(self, given):
        refused(" and ".join(name for name in ("save_checkpoint_due_time", "save_delta_checkpoints_secs")
                             if name not in given), init, is_incremental_checkpoint=True, **given)
        assert not Process.is_initialised()


class TestFeatureSpec:
    @pytest.mark.parametrize("kwargs, fragment", [
        ({"name": ""}, "length is less than"), ({"name": "x" * 256}, "length is bigger than"),
        ({"name": 1}, "is not str"),
        ({"table_name": ""}, "length is less than"), ({"table_name": "x" * 256}, "length is bigger than"),
        ({"table_name": b"x"}, "is not str"), ({"table_name": "..."}, "no letter"),
        ({"index_key": ""}, "length is less than"), ({"index_key": "x" * 256}, "length is bigger than"),
        ({"index_key": -1}, "is less than"), ({"index_key": 256}, "is bigger than"), ({"index_key": 1.5}, "is not str"),
        ({"access_threshold": -2}, "is less than"), ({"access_threshold": MAX_INT32 + 1}, "is bigger than"),
        ({"access_threshold": "1"}, "is not int"),
        ({"access_threshold": 1, "eviction_threshold": -2}, "is less than"),
        ({"eviction_threshold": MAX_INT32 + 1}, "is bigger than"), ({"eviction_threshold": 1.0}, "is not int"),
        ({"is_timestamp": 1}, "Invalid parameter type of para"),
        ({"batch_size": 0}, "is less than"), ({"batch_size": MAX_INT32 + 1}, "is bigger than"),
        ({"faae_coefficient": 0}, "is less than"), ({"faae_coefficient": MAX_INT32 + 1}, "is bigger than")])
    def test_every_argument_has_a_rule(self, kwargs, fragment):
        refused(fragment, FeatureSpec, **{"name": "user", **kwargs})

    def test_the_name_gets_a_number_and_the_table_name_loses_dots(self):
        first, second = FeatureSpec("user"), FeatureSpec("user", table_name="a.b")
        prefix, number = first.name.rsplit("_", 1)
        assert prefix == "user"
        assert second.name == "user_{}".format(int(number) + 1)
        assert (first.table_name, second.table_name) == ("user", "ab")

    def test_the_index_key_is_the_given_name_and_else_the_tables_name(self):
        spec = FeatureSpec("ids", table_name="table")
        assert spec.index_key == "ids"
        assert spec.index_keys == ("ids", "table")
        assert FeatureSpec("ids", index_key="k").index_keys == ("k",)

    def test_static_shapes_need_a_dimension_and_stay_the_same(self):
        spec = FeatureSpec("user")
        refused("at least one dimension", spec.set_static_shape, ids=tf.constant(1))
        spec.set_static_shape(tf.zeros([8, 3], tf.int64))
        assert (spec.batch_size, spec.feat_cnt, spec.split) == (8, 3, 24)
        spec.set_static_shape(tf.zeros([8, 3], tf.int32))
        refused("cannot change", spec.set_static_shape, ids=tf.zeros([8, 4], tf.int64))
        flat = FeatureSpec("flat")
        flat.set_static_shape(tf.zeros([5], tf.int64))
        assert (flat.batch_size, flat.feat_cnt, flat.split) == (5, 1, 5)


class TestInsertFunctionArguments:
    def test_one_form_must_be_given(self):
        refused("neither", get_asc_insert_func)
        refused("both", get_asc_insert_func, tgt_key_specs=FeatureSpec("a"), args_index_list=[0], table_names=["a"])

    def test_table_names_go_with_the_second_form_only(self):
        with pytest.raises(RuntimeError):
            get_asc_insert_func(tgt_key_specs=FeatureSpec("a"), table_names=["a"])
        with pytest.raises(RuntimeError):
            get_asc_insert_func(args_index_list=[0])

    @pytest.mark.parametrize("specs", [[], (), [["nested"]], ["name"], "name", {"a": 1}, [None]])
    def test_specs_are_a_spec_or_a_flat_list_of_specs(self, specs):
        refused("", get_asc_insert_func, tgt_key_specs=specs)

    def test_a_nested_list_of_specs_is_refused(self):
        refused("Invalid parameter type of para", get_asc_insert_func, tgt_key_specs=[[FeatureSpec("a")]])

    @pytest.mark.parametrize("places, names", [
        ([], ["a"]), ([0], []), ([0, 1], ["a"]), (["0"], ["a"]), ([-1], ["a"]), ([0], [1]), ([0], [""]), (0, "a")])
    def test_the_second_form_has_a_place_for_each_table(self, places, names):
        refused("", get_asc_insert_func, args_index_list=places, table_names=names)

    @pytest.mark.parametrize("flag", ["is_training", "dump_graph"])
    def test_flags_are_bools(self, flag):
        refused("Invalid parameter type of para", get_asc_insert_func, tgt_key_specs=FeatureSpec("a"), **{flag: 1})

    def test_two_timestamps_are_an_environment_error(self):
        with pytest.raises(EnvironmentError):
            get_asc_insert_func([FeatureSpec("a", is_timestamp=True), FeatureSpec("b", is_timestamp=True)])

    def test_different_thresholds_within_a_table_are_refused(self):
        refused("different thresholds", get_asc_insert_func, tgt_key_specs=[
            FeatureSpec("a", table_name="t", access_threshold=1), FeatureSpec("b", table_name="t", access_threshold=0)])

    @pytest.mark.parametrize("kwargs", [
        {"access_threshold": 1, "eviction_threshold": 5}, {"access_threshold": 1, "faae_coefficient": 2}, {}])
    def test_a_table_has_one_of_each_threshold(self, kwargs):
        specs = [FeatureSpec("a", table_name="t", access_threshold=1), FeatureSpec("b", table_name="t", **kwargs)]
        refused("different thresholds", get_asc_insert_func, tgt_key_specs=specs, is_training=False)

    @pytest.mark.parametrize("kwargs", [
        {"access_threshold": 2}, {"access_threshold": 0}, {"access_threshold": -1, "eviction_threshold": -1},
        {"faae_coefficient": 3}])
    def test_thresholds_are_accepted(self, kwargs):
        assert callable(get_asc_insert_func(FeatureSpec("a", **kwargs)))

    @pytest.mark.parametrize("kwargs", [{}, {"access_threshold": None}, {"access_threshold": -1}])
    @pytest.mark.parametrize("eviction", [0, 10])
    def test_eviction_needs_a_timestamp_in_training_and_no_admission(self, kwargs, eviction):
        spec = FeatureSpec("a", eviction_threshold=eviction, **kwargs)
        refused("eviction_threshold={}.*is_timestamp=True".format(eviction), get_asc_insert_func, tgt_key_specs=spec)
        assert callable(get_asc_insert_func(spec, is_training=False))
        assert callable(get_asc_insert_func([spec, FeatureSpec("time", is_timestamp=True)]))


TABLE = {"key_dtype": tf.int64, "dim": 8, "name": "user", "emb_initializer": tf.compat.v1.zeros_initializer(),
         "device_vocabulary_size": 100}
ON_DISK = {"host_vocabulary_size": 200, "ssd_vocabulary_size": 300}


class TestCreateTable:
    @pytest.mark.parametrize("kwargs, fragment", [
        ({"key_dtype": tf.float32}, "is not one of"), ({"key_dtype": "int64"}, "is not one of"),
        ({"dim": 0}, "is less than"), ({"dim": 8193}, "is bigger than"), ({"dim": 1.0}, "is not int"),
        ({"dim": tf.TensorShape([1, 2])}, "Invalid parameter type of para"),
        ({"dim": tf.TensorShape([None])}, "Invalid parameter type of para"),
        ({"dim": tf.TensorShape([0])}, "is less than"),
        ({"name": ""}, "length is less than"), ({"name": "x" * 101}, "length is bigger than"),
        ({"name": 1}, "is not str"),
        ({"name": "a/b"}, "E260: .*characters other than"), ({"name": "a b"}, "E260: .*characters other than"),
        ({"name": "é"}, "E260: .*characters other than"),
        ({"name": "mergeable_table_0"}, "reserved"),
        ({"emb_initializer": None}, "Invalid parameter type of para"),
        ({"emb_initializer": tf.compat.v1.zeros_initializer}, "Invalid parameter type of para"),
        ({"device_vocabulary_size": 0}, "is less than"), ({"device_vocabulary_size": 10 ** 9 + 1}, "is bigger than"),
        ({"device_vocabulary_size": 1.0}, "is not int"),
        ({"host_vocabulary_size": -1}, "is less than"), ({"host_vocabulary_size": 10 ** 9 + 1}, "is bigger than"),
        ({"host_vocabulary_size": 99}, "is less than"),
        ({"ssd_vocabulary_size": -1}, "is less than"),
        ({"ssd_vocabulary_size": 10}, "'user' has ssd_vocabulary_size 10, but no rows in host memory"),
        ({"ssd_data_path": "path"}, "Invalid parameter type of para"), ({"ssd_data_path": []}, "length is less than"),
        ({"is_save": 1}, "Invalid parameter type of para"), ({"is_dp": None}, "Invalid parameter type of para"),
        ({"init_param": 1}, "is not float"), ({"init_param": 10.1}, "is bigger than"),
        ({"init_param": -10.1}, "is less than"), ({"init_param": float("nan")}, "nan"),
        ({"all2all_gradients_op": "mean"}, "is not one of"), ({"enable_merge": 1}, "Invalid parameter type of para"),
        ({"padding_keys_mask": True}, "padding_keys_mask=True but no padding_keys"),
        ({"padding_keys": 0}, "padding_keys_mask=True"),
        ({"padding_keys": [0], "padding_keys_mask": True}, "padding_keys_len"),
        ({"padding_keys": "0", "padding_keys_mask": True, "padding_keys_len": 1}, "is not int"),
        ({"padding_keys": 0, "padding_keys_mask": True, "padding_keys_len": 0}, "is less than"),
        ({"padding_keys": 0, "padding_keys_mask": True, "padding_keys_len": 1, "is_dp": True}, "is_dp"),
        ({"value_dtype": tf.float64}, "is not one of"), ({"shard_num": 0}, "is less than"),
        ({"shard_num": 8193}, "is bigger than"), ({"fusion_optimizer_var": 1}, "Invalid parameter type of para"),
        ({"hashtable_threshold": -1}, "is less than"), ({"hashtable_threshold": MAX_INT32 + 1}, "is bigger than")])
    def test_every_argument_has_a_rule(self, kwargs, fragment):
        init()
        refused(fragment, create_table, **{**TABLE, **kwargs})

    @pytest.mark.parametrize("directory, reason", [("missing", "No such file"), ("file", "Not a directory"),
                                                   ("/proc", "")])
    def test_a_directory_without_files_is_an_error_that_names_it(self, directory, reason, tmp_path):
        init()
        (tmp_path / "file").write_text("")
        path = str(tmp_path / directory)  # an absolute one stays
        refused("ssd_data_path '{}': no row file can be made in {}: {}".format(path, path, reason),
                create_table, **{**TABLE, **ON_DISK, "ssd_data_path": [str(tmp_path), path]})

    def test_a_directory_that_lies_in_memory_is_named_in_a_warning(self, caplog):
        init()
        table = create_table(**TABLE, **ON_DISK, ssd_data_path=["/dev/shm"])
        assert table.shape.directories == ("/dev/shm",)
        (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert "Table 'user': ssd_data_path '/dev/shm' is on a file system in memory" in said

    def test_rows_on_disk_are_those_beside_the_host_and_nothing_is_left_in_the_directory(self, tmp_path):
        init()
        shape = create_table(**TABLE, **ON_DISK, ssd_data_path=[str(tmp_path)]).shape
        assert (shape.device_rows, shape.home_rows, shape.disk_rows) == (100, 300, 500)
        assert list(tmp_path.iterdir()) == []

    def test_a_table_may_have_host_rows_and_padding_keys(self):
        init()
        hosted = create_table(**TABLE, host_vocabulary_size=1000)
        assert (hosted.shape.device_rows, hosted.shape.home_rows) == (100, 1000)
        assert hosted.variable.shape.as_list() == [100, 8]
        padded = create_table(**{**TABLE, "name": "padded"}, padding_keys=[0, -1, 0], padding_keys_mask=True,
                              padding_keys_len=2)
        assert padded.shape.padding_keys == (-1, 0)
        single = create_table(**{**TABLE, "name": "single"}, padding_keys=7, padding_keys_mask=True, padding_keys_len=1)
        assert single.shape.padding_keys == (7,)

    @pytest.mark.parametrize("kwargs", [
        {"is_dp": True}, {"init_param": -2.0}, {"all2all_gradients_op": "sum_gradients_and_div_by_ranksize"},
        {"shard_num": 2, "fusion_optimizer_var": False, "hashtable_threshold": 5, "is_save": False}])
    def test_what_matters_with_several_ranks_only_is_accepted(self, kwargs):
        init()
        create_table(**TABLE, **kwargs)

    def test_merging_needs_expansion(self):
        init()
        with pytest.raises(RuntimeError, match="expansion"):
            create_table(**TABLE, enable_merge=True)

    def test_before_init_it_is_an_environment_error(self):
        with pytest.raises(EnvironmentError):
            create_table(**TABLE)

    def test_a_name_is_taken_once_and_without_its_dots(self):
        init()
        table = create_table(**{**TABLE, "name": "a.b"})
        assert table.table_name == "ab"
        refused("Table name 'ab' is already used", create_table, **{**TABLE, "name": "ab"})
        assert create_table(**{**TABLE, "name": "_c"}).table_name == "_c"

    def test_a_table_of_each_graph_may_have_the_same_name(self):
        init()
        create_table(**TABLE)
        with tf.Graph().as_default():
            assert create_table(**TABLE).shape.number == 0

    def test_size_and_capacity_need_the_pipeline(self):
        init()
        table = create_table(**TABLE)
        for call in (table.size, table.capacity):
            with pytest.raises(RuntimeError, match="start_asc_pipeline"):
                call()

    def test_the_variable_is_made_outside_the_programs_scopes_and_getters(self, graph):
        init()

        def getter(getter, *args, **kwargs):
            raise AssertionError("a custom getter met the table's variable")

        with tf.device("/device:GPU:3"), tf.name_scope("tower"), tf.compat.v1.variable_scope(
                "model", custom_getter=getter, partitioner=tf.compat.v1.fixed_size_partitioner(2), use_resource=True):
            table = create_table(**{**TABLE, "dim": tf.TensorShape([4])})
        variable = table.variable
        assert variable.op.name == "user"
        assert variable.op.type == "VariableV2"
        assert variable.shape.as_list() == [100, 4]
        assert variable.device == "/device:CPU:0"
        assert not variable.trainable
        assert variable in tf.compat.v1.global_variables()
        dense, sparse = get_dense_and_sparse_variable()
        assert [v.name for v in sparse] == ["user:0"]
        assert dense == []
        assert variable.initial_value.op.type == "AscTableInit"


OPTIMIZERS = [adagrad, ftrl, gradient_descent, lazy_adam]


class TestOptimizers:
    @pytest.mark.parametrize("module", OPTIMIZERS)
    @pytest.mark.parametrize("kwargs, fragment", [
        ({"learning_rate": -0.1}, "is less than"), ({"learning_rate": 10.1}, "is bigger than"),
        ({"learning_rate": "0.1"}, "is not float"), ({"learning_rate": 1}, "is not float"),
        ({"name": ""}, "length is less than"), ({"name": "x" * 201}, "length is bigger than"),
        ({"name": 1}, "is not str")])
    def test_learning_rate_and_name_have_rules(self, module, kwargs, fragment):
        init()
        refused(fragment, module.create_hash_optimizer, **{"learning_rate": 0.1, **kwargs})

    @pytest.mark.parametrize("module, kwargs, fragment", [
        (lazy_adam, {"beta1": 0.0}, "is less than"), (lazy_adam, {"beta1": 1.0}, "is bigger than"),
        (lazy_adam, {"beta2": -0.1}, "is less than"), (lazy_adam, {"beta2": 1.1}, "is bigger than"),
        (lazy_adam, {"beta1": 1}, "is not float"), (lazy_adam, {"epsilon": 0.0}, "is less than"),
        (lazy_adam, {"epsilon": 1.1}, "is bigger than"), (lazy_adam, {"use_fusion_optim": 1}, "Invalid parameter type"),
        (adagrad, {"initial_accumulator_value": 0.0}, "is less than"),
        (adagrad, {"initial_accumulator_value": 1.1}, "is bigger than"),
        (adagrad, {"use_locking": 1}, "Invalid parameter type"),
        (ftrl, {"learning_rate_power": 0.1}, "is bigger than"), (ftrl, {"learning_rate_power": "1"}, "is not float"),
        (ftrl, {"initial_accumulator_value": 0.0}, "is less than"),
        (ftrl, {"initial_accumulator_value": 1.1}, "is bigger than"),
        (ftrl, {"l1_regularization_strength": -0.1}, "is less than"),
        (ftrl, {"l2_regularization_strength": 10001.0}, "is bigger than"),
        (ftrl, {"l2_shrinkage_regularization_strength": -1.0}, "is less than"),
        (ftrl, {"accum_name": ""}, "length is less than"), (ftrl, {"linear_name": 1}, "is not str"),
        (gradient_descent, {"weight_decay": 1e-6}, "is less than"),
        (gradient_descent, {"weight_decay": 0.1}, "is bigger than"),
        (gradient_descent, {"weight_decay": 1}, "is not float"),
        (gradient_descent, {"use_fusion_optim": 1}, "Invalid parameter type")])
    def test_every_other_argument_has_a_rule(self, module, kwargs, fragment):
        init()
        refused(fragment, module.create_hash_optimizer, **{"learning_rate": 0.1, **kwargs})

    @pytest.mark.parametrize("module", OPTIMIZERS)
    def test_each_is_a_tensorflow_optimizer_with_a_number_in_its_name(self, module):
        from mx_rec.optimizers.base import CustomizedOptimizer
        init()
        names = [module.create_hash_optimizer(0.1, name="Mine").get_name() for _ in range(2)]
        assert names == ["Mine_0", "Mine_1"]
        with tf.Graph().as_default():
            optimizer = module.create_hash_optimizer(tf.constant(0.1), name="Mine")
        assert optimizer.get_name() == "Mine_0"
        assert isinstance(optimizer, (CustomizedOptimizer, tf.compat.v1.train.Optimizer))

    @pytest.mark.parametrize("create, kwargs, fragment", [
        (lazy_adam.create_hash_optimizer_by_address, {}, "expansion"),
        (adagrad.create_hash_optimizer_by_address, {}, "expansion"),
        (gradient_descent.create_hash_optimizer_by_addr, {"learning_rate": 0.1}, "expansion"),
        (gradient_descent.create_hash_optimizer_by_addr, {"learning_rate": 0.1, "weight_decay": 1.1}, "is bigger than"),
        (lazy_adam.create_hash_optimizer_by_address, {"epsilon": 0.0}, "is less than")])
    def test_by_address_forms_are_refused_outside_expansion(self, create, kwargs, fragment):
        init()
        refused(fragment, create, **kwargs)


def test_numpy_numbers_are_numbers():
    init(max_steps=np.int64(3))
    gradient_descent.create_hash_optimizer(np.float32(0.5))
