"""A model that plain TensorFlow trained is trained on with tables, and has the losses that plain TensorFlow has."""
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.checkpoint.reader import open_checkpoint
from tests.support.ascend_programs import PROGRAMS, QUIET, environment_with
from tests.support.programs.embeddings_by_hand import BATCH, DIM, ITEMS, RATE, STEPS, iterator, loss_of, plain_loss

USERS = {"Adagrad": 50, "Ftrl": 50, "Adam": 8}
OPTIMIZERS = {"Adagrad": "Adagrad", "Ftrl": "Ftrl", "Adam": "LazyAdam"}
NAMES = {"variable": ["model/user", "model/item"], "table": ["user", "item"], "partition_strategy": "mod"}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """(folder, optimizer -> losses after the checkpoint) of a process without ascpipe."""
    folder = tmp_path_factory.mktemp("plain")
    done = subprocess.run(
        [sys.executable, os.path.join(PROGRAMS, "embeddings_by_hand.py"), str(folder),
         *("{}:{}".format(*each) for each in USERS.items())],
        env=environment_with(**QUIET), stdout=subprocess.PIPE, check=True, text=True)
    return folder, json.loads(done.stdout)


def trained_on(prefix, name, user_keys=lambda ids: ids, steps=STEPS, to=None, optimizers=asc.optimizers):
    """Losses of the later steps with tables, from a checkpoint.

    Args:
        to: name of a checkpoint that is saved at the end.
        optimizers: of ascpipe, or ``tf.compat.v1.train``.
    """
    theirs = optimizers is not asc.optimizers
    with tf.Graph().as_default():
        asc.init()
        try:
            batches = iterator(USERS[name], STEPS)
            batch = batches.get_next()
            tables = [asc.create_table(each, DIM, device_vocabulary_size=2 * BATCH,
                                       initializer=tf.compat.v1.zeros_initializer()) for each in ("user", "item")]
            rows = [asc.sparse_lookup(table, keys) for table, keys in zip(
                tables, [user_keys(batch["user"]), batch["item"]])]
            loss = loss_of(*rows, batch["label"])
            step = tf.compat.v1.train.get_or_create_global_step()
            optimizer = getattr(optimizers, name + "Optimizer" if theirs else OPTIMIZERS[name])(RATE[name])
            targets = [*tf.compat.v1.trainable_variables(), *asc.table_variables()] if theirs else None
            train = optimizer.minimize(loss, global_step=step, var_list=targets)
            asc.start()
            saver = asc.Saver()
            with tf.compat.v1.Session() as session:
                session.run(batches.initializer)
                saver.restore(session, prefix)
                losses = [float(session.run([loss, train])[0]) for _ in range(steps)]
                assert session.run(step) == STEPS + steps
                if to is not None:
                    saver.save(session, to)
            return losses, {table.table_name: table.size() for table in tables}
        finally:
            asc.shutdown()


@pytest.mark.parametrize("name", sorted(USERS))
def test_a_hand_written_model_has_the_losses_of_plain_tensorflow(name, plain, tmp_path):
    folder, losses = plain
    to = str(tmp_path / "taken" / "model-100")
    found = asc.from_tensorflow(str(folder / name / "model-100"), to=to, **NAMES)
    assert (found.checkpoint, dict(found.tables)) == (to, {"user": USERS[name], "item": ITEMS})
    assert tf.train.latest_checkpoint(str(tmp_path / "taken")) == to
    ours, rows = trained_on(to, name)
    np.testing.assert_allclose(ours, losses[name], rtol=1e-5)
    assert rows == found.tables


@pytest.mark.parametrize("name", ["Adagrad", "Ftrl"])
def test_training_continues_if_tensorflow_s_optimizer_replaces_the_equal_one_of_ascpipe(name, plain, tmp_path):
    folder, losses = plain
    found = asc.from_tensorflow(str(folder / name / "model-100"), to=str(tmp_path / "taken-100"), **NAMES)
    mine, _ = trained_on(found.checkpoint, name, steps=30, to=str(tmp_path / "model-130"))
    theirs, _ = trained_on(found.checkpoint, name, steps=30, to=str(tmp_path / "other-130"),
                           optimizers=tf.compat.v1.train)
    np.testing.assert_allclose([mine, theirs], [losses[name][:30]] * 2, rtol=1e-5)
    with open_checkpoint(str(tmp_path / "model-130")) as one, open_checkpoint(str(tmp_path / "other-130")) as other:
        names = [[slot.name for slot in each.tables["user"].slots] for each in (one, other)]
    assert names == {"Adagrad": [["Adagrad_accumulator"], ["Adagrad"]],
                     "Ftrl": [["ftrl_accum", "ftrl_linear"], ["Ftrl", "Ftrl_1"]]}[name]


def test_lines_of_a_vocabulary_become_the_hashes_of_texts(plain, tmp_path):
    folder, losses = plain
    (tmp_path / "users.txt").write_text("".join("user-{}\n".format(number) for number in range(50)))
    found = asc.from_tensorflow(str(folder / "Adagrad" / "model-100"), to=str(tmp_path / "model-100"),
                                keys=["vocabulary:{}".format(tmp_path / "users.txt"), "identity"], **NAMES)

    def hashed(ids):
        return tf.strings.to_hash_bucket_fast(tf.strings.join(["user-", tf.strings.as_string(ids)]), 2 ** 63 - 1)

    ours, _ = trained_on(found.checkpoint, "Adagrad", hashed)
    np.testing.assert_allclose(ours, losses["Adagrad"], rtol=1e-5)


def test_rows_and_slots_are_the_bits_of_the_variables(plain, tmp_path):
    folder, _ = plain
    prefix = str(folder / "Ftrl" / "model-100")
    found = asc.from_tensorflow(prefix, to=str(tmp_path / "model-100"), **NAMES)
    reader = tf.train.load_checkpoint(prefix)
    user = [reader.get_tensor("model/user" + slot) for slot in ("", "/Ftrl", "/Ftrl_1")]
    with open_checkpoint(found.checkpoint) as checkpoint:
        assert [slot.name for slot in checkpoint.tables["user"].slots] == ["ftrl_accum", "ftrl_linear"]
        block, = checkpoint.blocks("user")
        items, = checkpoint.blocks("item")
    assert block.keys.tolist() == list(range(50))
    assert np.concatenate(user, 1).tobytes() == block.rows.tobytes()
    # The strategy "mod" puts item i into part i % 3: parts have 11, 10 and 10 rows.
    order = np.concatenate([np.arange(part, ITEMS, 3) for part in range(3)])
    assert items.keys.tolist() == order.tolist()
    assert items.rows[:, :DIM].tobytes() == reader.get_tensor("model/item").tobytes()


def plainly_trained_on(prefix, name, first):
    """Losses of plain TensorFlow from a checkpoint on, from step ``first`` of the batches."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        batches = iterator(USERS[name], first)
        loss = plain_loss(USERS[name], batches.get_next(), parts=1)
        step = tf.compat.v1.train.get_or_create_global_step()
        train = getattr(tf.compat.v1.train, name + "Optimizer")(RATE[name]).minimize(loss, step)
        session.run(batches.initializer)
        tf.compat.v1.train.Saver().restore(session, prefix)
        return [float(session.run([loss, train])[0]) for _ in range(2 * STEPS - first)]


@pytest.mark.parametrize("name", sorted(USERS))
def test_plain_tensorflow_continues_what_tables_have_trained(name, plain, tmp_path):
    folder, losses = plain
    taken = asc.from_tensorflow(str(folder / name / "model-100"), to=str(tmp_path / "taken" / "model-100"), **NAMES)
    (tmp_path / "tables").mkdir()
    ours, _ = trained_on(taken.checkpoint, name, steps=40, to=str(tmp_path / "tables" / "model-140"))
    back = asc.to_tensorflow(str(tmp_path / "tables" / "model-140"), NAMES["table"], NAMES["variable"],
                             str(tmp_path / "back" / "model-140"))
    assert (dict(back.rows), dict(back.zeros)) == (
        {"model/user": USERS[name], "model/item": ITEMS}, {"model/user": 0, "model/item": 0})
    np.testing.assert_allclose(ours + plainly_trained_on(back.checkpoint, name, 140), losses[name], rtol=1e-5)
