"""``get_asc_insert_func`` over every kind of batch: what it finds, what it returns, what it refuses."""
import collections
import os

import pytest
import tensorflow as tf

from ascpipe.layout.words import EVAL, TRAIN
from ascpipe.tf.graph.features import FeatureSpec
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.program.insert_function import get_asc_insert_func
from ascpipe.tf.running.process import init, terminate_config_initializer

Pair = collections.namedtuple("Pair", ["features", "label"])


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        init()
        yield graph
        terminate_config_initializer()


def state(graph):
    return GraphState.of(graph)


def ids(*shape, dtype=tf.int64):
    return tf.zeros(shape, dtype)


def submit_op(tensor):
    assert tensor.op.type == "AscSubmit"
    return tensor.op


class TestBatches:
    def test_a_dict_gets_one_entry_named_after_its_last_key(self, graph):
        batch = {"user": ids(4), "item": ids(4), "z_label": ids(4)}
        result = get_asc_insert_func([FeatureSpec("user"), FeatureSpec("item")])(batch)
        assert list(batch) == ["user", "item", "z_label"]
        assert set(result) - set(batch) == {"z_label_read_emb_key"}
        assert type(result) is dict
        assert result["user"] is batch["user"]
        ticket = result["z_label_read_emb_key"]
        assert (ticket.dtype, ticket.shape.as_list()) == (tf.int64, [])
        assert list(submit_op(ticket).inputs) == [batch["item"], batch["user"]]

    def test_an_ordered_dict_stays_one(self):
        batch = collections.OrderedDict(user=ids(4))
        assert type(get_asc_insert_func(FeatureSpec("user"))(batch)) is collections.OrderedDict

    def test_a_single_tensor_becomes_a_pair(self):
        tensor = ids(4)
        result = get_asc_insert_func(FeatureSpec("user", index_key=0))(tensor)
        assert type(result) is tuple
        assert result[0] is tensor
        submit_op(result[1])

    def test_a_pair_gets_it_in_its_first_element(self):
        features, label = {"user": ids(4)}, ids(4)
        result = get_asc_insert_func(FeatureSpec("user"))(features, label)
        assert result[1] is label
        submit_op(result[0]["user_read_emb_key"])
        first, second = get_asc_insert_func(FeatureSpec("user", index_key=0))(ids(4), label)
        assert second is label
        submit_op(first[1])

    def test_a_longer_tuple_gets_it_at_its_end(self):
        batch = (ids(4), ids(4, 2), ids(4))
        result = get_asc_insert_func([FeatureSpec("a", index_key=1), FeatureSpec("b", index_key=0)])(*batch)
        assert type(result) is tuple
        assert result[:3] == batch
        assert list(submit_op(result[3]).inputs) == [batch[1], batch[0]]

    def test_a_list_stays_a_list(self):
        batch = [ids(4), ids(4), ids(4)]
        result = get_asc_insert_func(FeatureSpec("a", index_key=2))(batch)
        assert type(result) is list
        assert result[:3] == batch
        pair = get_asc_insert_func(FeatureSpec("c", index_key=0))([ids(4), ids(4)])
        assert type(pair) is list
        submit_op(pair[0][1])

    def test_a_named_pair_stays_one(self):
        result = get_asc_insert_func(FeatureSpec("user"))(Pair({"user": ids(4)}, ids(4)))
        assert type(result) is Pair
        submit_op(result.features["user_read_emb_key"])

    def test_places_of_a_pair_are_among_its_features_where_those_are_a_list(self):
        features = (ids(4), ids(4, 3))
        result = get_asc_insert_func(FeatureSpec("user", index_key=1))(features, ids(4))
        assert list(submit_op(_ticket(result)).inputs) == [features[1]]

    def test_a_nested_dict_is_searched(self):
        batch = {"deep": {"user": ids(4)}, "label": ids(4)}
        result = get_asc_insert_func(FeatureSpec("user"))(batch)
        assert list(submit_op(result["label_read_emb_key"]).inputs) == [batch["deep"]["user"]]

    def test_the_given_name_is_the_key_and_else_the_tables_name(self, caplog):
        batch = {"item": ids(4), "last_seen": ids(5)}
        for _ in range(2):
            insert = get_asc_insert_func([FeatureSpec("item", table_name="item"),
                                          FeatureSpec("last_seen", table_name="item")])
            assert list(submit_op(_ticket(insert(batch))).inputs) == [batch["item"], batch["last_seen"]]
        assert caplog.text.count("which also has 'item', the name of the table") == 1
        insert = get_asc_insert_func(FeatureSpec("other", table_name="item"))
        assert list(submit_op(_ticket(insert(batch))).inputs) == [batch["item"]]

    @pytest.mark.parametrize("first", ["item", "bought"])
    def test_a_feature_does_not_take_the_ids_of_another_of_its_table_unasked(self, first):
        specs = [FeatureSpec(first, table_name="item"), FeatureSpec("last_seen", table_name="item")]
        with pytest.raises(ValueError, match="E265: .*would both use the ids 'item'.*index_key"):
            get_asc_insert_func(specs)({"item": ids(4)})

    def test_two_features_may_ask_for_the_same_ids(self):
        batch = {"item": ids(4)}
        specs = [FeatureSpec("item", table_name="item"), FeatureSpec("again", table_name="item", index_key="item")]
        assert list(submit_op(_ticket(get_asc_insert_func(specs)(batch))).inputs) == [batch["item"], batch["item"]]


def _ticket(batch):
    found = [tensor for tensor in tf.nest.flatten(batch) if tensor.op.type == "AscSubmit"]
    assert len(found) == 1
    return found[0]


class TestRefusals:
    def test_a_missing_key_is_skipped_unless_it_is_the_timestamp(self, graph):
        batch = {"user": ids(4)}
        result = get_asc_insert_func([FeatureSpec("user"), FeatureSpec("item")])(batch)
        assert len(submit_op(_ticket(result)).inputs) == 1
        with pytest.raises(KeyError, match="time"):
            get_asc_insert_func([FeatureSpec("user"), FeatureSpec("time", is_timestamp=True)])(batch)

    def test_a_batch_without_any_of_the_features_is_refused(self):
        with pytest.raises(ValueError, match="E265: The batch has none of the features"):
            get_asc_insert_func(FeatureSpec("item"))({"user": ids(4)})

    def test_a_place_beyond_the_end_is_refused(self):
        with pytest.raises(ValueError, match="beyond the end"):
            get_asc_insert_func(FeatureSpec("a", index_key=3))(ids(4), ids(4), ids(4))

    @pytest.mark.parametrize("batch, key", [({"user": 1}, 0), (("user", 1), "user")])
    def test_a_key_of_the_wrong_kind_for_the_batch_is_refused(self, batch, key):
        with pytest.raises(ValueError, match="index_key"):
            get_asc_insert_func(FeatureSpec("user", index_key=key))(batch)

    @pytest.mark.parametrize("element", [
        3, [1, 2], lambda: tf.SparseTensor([[0, 0]], ["a"], [1, 1]), lambda: tf.zeros([3], tf.bool),
        lambda: tf.constant(["a"])])
    def test_what_is_no_tensor_of_integers_is_a_type_error(self, element):
        element = element() if callable(element) else element
        with pytest.raises(TypeError):
            get_asc_insert_func(FeatureSpec("user"))({"user": element})

    def test_a_timestamp_is_a_scalar(self):
        insert = get_asc_insert_func([FeatureSpec("user"), FeatureSpec("time", is_timestamp=True)])
        with pytest.raises(ValueError, match="scalar"):
            insert({"user": ids(4), "time": ids(1)})
        with pytest.raises(ValueError, match="scalar"):
            insert({"user": ids(4), "time": tf.compat.v1.placeholder(tf.int64)})
        with pytest.raises(ValueError, match="E265: The batch has none of the features"):
            insert({"time": ids()})

    def test_two_timestamps_of_a_channel_are_an_environment_error_even_in_two_streams(self):
        batch = {"user": ids(4), "time": ids()}
        get_asc_insert_func([FeatureSpec("user"), FeatureSpec("time", is_timestamp=True)])(batch)
        get_asc_insert_func([FeatureSpec("user"), FeatureSpec("time", is_timestamp=True)], is_training=False)(batch)
        with pytest.raises(EnvironmentError, match="several timestamp"):
            get_asc_insert_func([FeatureSpec("user"), FeatureSpec("time", is_timestamp=True)])(batch)

    def test_false_for_is_timestamp_is_refused_when_it_meets_a_tensor(self):
        with pytest.raises(ValueError, match="is_timestamp=False"):
            get_asc_insert_func(FeatureSpec("user", is_timestamp=False))({"user": ids(4)})

    def test_before_init_it_is_an_environment_error(self):
        terminate_config_initializer()
        with pytest.raises(EnvironmentError):
            get_asc_insert_func(FeatureSpec("user"))({"user": ids(4)})

    def test_static_shapes_need_a_dimension(self):
        terminate_config_initializer()
        init(use_dynamic=False)
        spec = FeatureSpec("user")
        with pytest.raises(ValueError, match="at least one dimension"):
            get_asc_insert_func(spec)({"user": ids()})
        get_asc_insert_func(spec)({"user": ids(4, 2)})
        assert spec.split == 8


class TestSubmission:
    def test_ids_are_ordered_by_table_and_then_by_name(self, graph):
        specs = [FeatureSpec("b", table_name="t2"), FeatureSpec("z", table_name="t1"),
                 FeatureSpec("a", table_name="t2")]
        batch = {"b": ids(1), "z": ids(2, dtype=tf.int32), "a": ids(3)}
        op = submit_op(_ticket(get_asc_insert_func(specs)(batch)))
        assert list(op.inputs) == [batch["z"], batch["a"], batch["b"]]
        (stream,) = state(graph).streams()
        assert stream.table_names() == ["t1", "t2"]
        assert [feature.spec for feature in stream.features_of("t2")] == [specs[2], specs[0]]

    def test_the_timestamp_travels_beside_the_ids_and_is_none(self, graph):
        batch = {"user": ids(4), "time": ids(dtype=tf.int32)}
        op = submit_op(_ticket(get_asc_insert_func(
            [FeatureSpec("user"), FeatureSpec("time", is_timestamp=True)])(batch)))
        assert op.get_attr("n_stamps") == 1
        assert (op.inputs[0], op.inputs[1].dtype) == (batch["user"], tf.int64)
        (stream,) = state(graph).streams()
        assert stream.table_names() == ["user"]
        assert stream.timestamp.name.startswith("time")

    @pytest.mark.parametrize("sparse", [
        lambda: tf.SparseTensor([[0, 0], [1, 2]], tf.constant([7, 8], tf.int64), [2, 3]),
        lambda: tf.RaggedTensor.from_row_splits(tf.constant([7, 8], tf.int64), [0, 1, 2])])
    def test_of_sparse_ids_the_values_are_submitted(self, sparse, graph):
        batch = {"user": sparse()}
        result = get_asc_insert_func(FeatureSpec("user"))(batch)
        assert result["user"] is batch["user"]
        assert submit_op(result["user_read_emb_key"]).inputs[0] in (
            getattr(batch["user"], "values", None), getattr(batch["user"], "flat_values", None))
        assert state(graph).streams()[0].features[0].sparse

    def test_other_integers_are_cast_to_int64(self):
        op = submit_op(_ticket(get_asc_insert_func(FeatureSpec("a"))({"a": ids(3, dtype=tf.uint8)})))
        assert op.inputs[0].dtype == tf.int64

    @pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.float16])
    def test_floats_are_cast_to_int64_with_one_warning(self, dtype, caplog, monkeypatch):
        monkeypatch.setattr("ascpipe.tf.graph.ids._warned_dtypes", set())
        for _ in range(2):
            op = submit_op(_ticket(get_asc_insert_func(FeatureSpec("a"))({"a": tf.constant([1.0, 7.0], dtype)})))
            assert op.inputs[0].dtype == tf.int64
        assert caplog.text.count("and are cast to int64. Above 2^") == 1

    def test_the_second_form_takes_places_of_the_flattened_batch(self, graph):
        batch = ({"x": ids(1), "a": ids(2)}, ids(3))
        insert = get_asc_insert_func(args_index_list=[2, 0, 1], table_names=["t2", "t1", "t1"])
        op = submit_op(_ticket(insert(*batch)))
        assert list(op.inputs) == [batch[0]["a"], batch[0]["x"], batch[1]]
        assert state(graph).streams()[0].table_names() == ["t1", "t2"]

    def test_the_second_form_refuses_a_place_beyond_the_end(self):
        with pytest.raises(ValueError, match="index 1, but the number of tensors in the batch is 1"):
            get_asc_insert_func(args_index_list=[1], table_names=["t"])(ids(3))

    def test_each_insert_function_is_a_stream_of_its_channel(self, graph):
        train, evaluate = FeatureSpec("a"), FeatureSpec("a")
        data = tf.data.Dataset.from_tensors({"a": [1, 2]})
        data.map(get_asc_insert_func(train))
        data.map(get_asc_insert_func(evaluate, is_training=False))
        streams = state(graph).streams()
        assert [(s.number, s.channel) for s in streams] == [(0, TRAIN), (1, EVAL)]
        assert state(graph).stream_of(train, TRAIN) is streams[0]
        with pytest.raises(ValueError, match="has no insert function for evaluation"):
            state(graph).stream_of(train, EVAL)

    def test_one_insert_function_over_two_datasets_is_one_stream(self, graph):
        insert = get_asc_insert_func(FeatureSpec("a"))
        tf.data.Dataset.from_tensors({"a": [1, 2]}).map(insert)
        tf.data.Dataset.from_tensors({"a": [1, 2, 3]}).map(insert)
        (stream,) = state(graph).streams()
        assert stream.features[0].shape.as_list() == [None]

    def test_each_graph_has_its_own_streams(self, graph):
        insert, numbers = get_asc_insert_func(FeatureSpec("a")), []
        for _ in range(2):
            with tf.Graph().as_default() as other:
                tf.data.Dataset.from_tensors({"a": [1, 2]}).map(insert)
                numbers += [stream.number for stream in state(other).streams()]
        assert state(graph).streams() == []
        assert len(numbers) == len(set(numbers)) == 2

    def test_the_insert_function_may_be_called_inside_the_programs_own(self, graph):
        insert = get_asc_insert_func(FeatureSpec("a"))
        data = tf.data.Dataset.from_tensors([1, 2]).map(lambda x: insert({"a": x + 1, "label": x}))
        assert set(tf.compat.v1.data.get_output_types(data)) == {"a", "label", "label_read_emb_key"}
        assert len(state(graph).streams()) == 1

    def test_dump_graph_writes_its_file(self, tmp_path):
        os.chdir(str(tmp_path))
        tf.data.Dataset.from_tensors({"a": [1, 2]}).map(get_asc_insert_func(FeatureSpec("a"), dump_graph=True))
        dumped = tf.compat.v1.GraphDef.FromString((tmp_path / "export_graph" / "pipeline_graph.pb").read_bytes())
        assert "AscSubmit" in {node.op for node in dumped.node}
