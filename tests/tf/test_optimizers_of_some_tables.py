"""Programs with several optimizers for tables: one for each table, or two for one table."""
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.errors import TableUseError
from tests.tf import twin_programs

v1 = tf.compat.v1
WARNING = "is updated by two optimizers"


def wide_and_deep(pick):
    """Ftrl trains the items, and Adagrad the users and the dense variables; ``pick`` chooses what stands for a table.
    """
    def train(model):
        chosen = pick if model.is_ours else lambda table: table
        dense = [each for each in v1.trainable_variables() if not any(each is one for one in model.tables.values())]
        items, users = chosen(model.tables["item"]), chosen(model.tables["user"])
        return tf.group(model.optimizer("ftrl").minimize(model.loss, var_list=[items]),
                        model.optimizer("adagrad").minimize(model.loss, var_list=[users, *dense]))
    return train


@pytest.mark.parametrize("tier", ["device", "host"])
@pytest.mark.parametrize("mode", ["tensors", "features"])
def test_an_optimizer_for_each_table_trains_like_tensorflow(tier, mode, caplog):
    wanted = twin_programs.plain(wide_and_deep(None))
    for pick in (lambda table: table, lambda table: table.variable):
        found = twin_programs.ours(wide_and_deep(pick), tier, mode)
        assert not twin_programs.require_equal_or_refused(found, wanted)
    assert WARNING not in caplog.text


def by_two(is_twice_listed):
    def train(model):
        lists = {"var_list": model.everything()} if is_twice_listed else {}
        return tf.group(*(model.optimizer(kind).minimize(model.loss, **lists) for kind in ("adagrad", "adagrad")))
    return train


def test_optimizers_of_tensorflow_accept_tables_in_var_list():
    def train(model):
        tables = list(model.tables.values())
        dense = [each for each in v1.trainable_variables() if not any(each is table for table in tables)]
        return v1.train.AdagradOptimizer(0.05).minimize(model.loss, var_list=[*dense, *tables])

    assert not twin_programs.require_equal_or_refused(twin_programs.ours(train), twin_programs.plain(train))


def test_tables_that_grow_may_be_in_var_list():
    def train(model):
        tables = [*model.tables.values()]
        dense = [each for each in v1.trainable_variables() if not any(each is table for table in tables)]
        return tf.group(model.optimizer("adagrad").minimize(model.loss, var_list=tables[:1]),
                        model.optimizer("gradient_descent").minimize(model.loss, var_list=[*tables[1:], *dense]))

    assert not twin_programs.require_equal_or_refused(
        twin_programs.ours(train, "expansion"), twin_programs.plain(train))


@pytest.mark.parametrize("is_listed", [False, True])
def test_a_table_that_two_optimizers_train_by_default_is_named_in_one_warning(is_listed, caplog):
    found = twin_programs.ours(by_two(is_listed))
    assert found.error is None
    said = [line for line in caplog.messages if WARNING in line]
    assert len(said) == (0 if is_listed else 2)
    if said:
        assert said[0].startswith("table 'user' is updated by two optimizers, 'Adagrad_0' and 'Adagrad_1'")
        assert "pass the tables of each optimizer in var_list" in said[0]


def test_two_optimizers_that_alternate_train_one_table_like_a_variable(caplog):
    def outcome(is_ours):
        with (twin_programs.ascpipe() if is_ours else tf.Graph().as_default()):
            arrays = twin_programs.source()
            data = tf.data.Dataset.from_tensor_slices((arrays["item"], arrays["label"])).batch(6)
            iterator = v1.data.make_initializable_iterator(data.prefetch(4))
            ids, labels = iterator.get_next()
            first = v1.constant_initializer(0.25)
            if is_ours:
                rows = asc.sparse_lookup(asc.create_table("item", 2, initializer=first, device_vocabulary_size=50), ids)
            else:
                rows = tf.nn.embedding_lookup(v1.get_variable("item", [50, 2], initializer=first), ids)
            losses = [tf.reduce_mean(tf.square(tf.reduce_sum(rows, 1) - labels)),
                      tf.reduce_mean(tf.square(tf.reduce_sum(rows, 1) + labels))]
            kinds = [twin_programs.OPTIMIZERS[kind][0 if is_ours else 1]() for kind in ("adagrad", "ftrl")]
            steps = [kind.minimize(loss) for kind, loss in zip(kinds, losses)]
            if is_ours:
                asc.start()
            with v1.Session() as run:
                run.run([iterator.initializer, v1.global_variables_initializer()])
                return [float(run.run([losses[turn % 2], steps[turn % 2]])[0]) for turn in range(8)]

    assert outcome(True) == pytest.approx(outcome(False), rel=1e-5)
    assert caplog.text.count(WARNING) == 1


def test_one_optimizer_that_minimizes_two_losses_is_no_second_optimizer(caplog):
    def train(model):
        optimizer = model.optimizer("adagrad")
        return tf.group(optimizer.minimize(model.loss), optimizer.minimize(model.loss))

    assert twin_programs.ours(train).error is None
    assert WARNING not in caplog.text


def test_a_table_of_another_graph_in_var_list_raises_an_error_that_names_it():
    with twin_programs.ascpipe():
        table = asc.create_table("user", 2, initializer=v1.zeros_initializer(), device_vocabulary_size=10)
        with tf.Graph().as_default():
            loss = v1.get_variable("weight", [], initializer=v1.ones_initializer())
            with pytest.raises(TableUseError, match="E253: Table 'user' .* it was created in another graph"):
                v1.train.AdagradOptimizer(0.1).minimize(loss, var_list=[table])
