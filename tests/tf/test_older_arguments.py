"""Arguments of other versions are ignored with a word, misspelt ones are refused; a wrong call names its function."""
import pytest
import tensorflow as tf

from ascpipe.tf import validation
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.optimizers import gradient_descent, lazy_adam
from tests.tf import programs

ZEROS = tf.compat.v1.zeros_initializer()


@pytest.fixture(autouse=True)
def _nothing_was_said(monkeypatch):
    validation._ignored.clear()


def test_create_table_ignores_what_older_versions_took_and_names_it_once(caplog):
    with programs.ascpipe():
        create_table(key_dtype=tf.int64, dim=tf.TensorShape([8]), name="user_table", emb_initializer=ZEROS,
                     device_vocabulary_size=100, optimizer_list=[object()], mode="train", use_feature_mapping=False)
        table = create_table(tf.int64, 8, "item_table", ZEROS, optimizer_list=[], mode="train")
        assert table.table_name == "item_table"
    said = [record.getMessage() for record in caplog.records if "ignored" in record.getMessage()]
    assert said == ["create_table() does not have these arguments, which are ignored: mode, optimizer_list, "
                    "use_feature_mapping"]


def test_what_was_named_before_is_not_named_again_and_something_new_is(caplog):
    with programs.ascpipe():
        create_table(tf.int64, 8, "a", ZEROS, mode=1)
        create_table(tf.int64, 8, "b", ZEROS, mode=1, optimizer_list=[])
    said = [record.getMessage().rpartition(": ")[2] for record in caplog.records if "ignored" in record.getMessage()]
    assert said == ["mode", "optimizer_list"]


@pytest.mark.parametrize("misspelt, meant", [
    ("device_vocabulary_sise", "device_vocabulary_size"), ("host_vocab_size", "host_vocabulary_size"),
    ("emb_initialiser", "emb_initializer"), ("padding_key", "padding_keys")])
def test_a_misspelt_argument_of_a_table_is_refused_and_makes_no_table(misspelt, meant):
    with programs.ascpipe():
        with pytest.raises(TypeError, match=r"create_table\(\): .*{!r}; did you mean {}\?".format(misspelt, meant)):
            create_table(tf.int64, 8, "user", ZEROS, **{misspelt: 5})
        create_table(tf.int64, 8, "user", ZEROS)  # the name is free


CALLS = {
    "create_table": (lambda: create_table(tf.int64, 8, "user"), "missing a required argument: 'emb_initializer'"),
    "create_table positional": (lambda: create_table(*range(21)), "too many positional arguments"),
    "sparse_lookup": (lambda: sparse_lookup(), "missing a required argument: 'hashtable'"),
    "create_hash_optimizer": (lambda: lazy_adam.create_hash_optimizer(rate=0.1), "unexpected keyword argument 'rate'"),
    "create_hash_optimizer_by_addr": (lambda: gradient_descent.create_hash_optimizer(0.1, learning_rate=0.1),
                                      "multiple values for argument 'learning_rate'"),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_call_names_the_function(call):
    function, said = CALLS[call]
    name = "create_hash_optimizer" if call.startswith("create_hash") else call.split()[0]
    with programs.ascpipe(), pytest.raises(TypeError, match=r"^E261: {}\(\): {}".format(name, said.replace("unexpected",
                                                            "got an unexpected"))):
        function()
