"""Training on a trace that saves in its midst; another process goes on from there.

    python -m tests.support.programs.resuming CASE_AS_JSON

``kill``: it dies after the save; ``background``: the save goes on in the background, and it dies ten steps later;
``die_in``: there was a save before, and it dies in the one in the background, in this method of its writer.
It prints, a line each: digests of the losses after the save, and of all state per key at the end.

``every``: it saves after each such number of steps, every other time in the background, and prints the number and the
bits of each loss at once. It is killed from outside. ``sizes``: of the table, instead of what fits.

``until_save``: it ends at the save, or, restored, before its first step. ``delta``: there was a full save before, and
it saves what has changed since.
"""
import functools
import hashlib
import json
import os
import signal
import sys
from typing import Any, Dict, List

import numpy as np
import tensorflow as tf

from ascpipe.checkpoint.writer import CheckpointWriter
from ascpipe.tf import Saver, trained_batches, wait_for_save
from ascpipe.tf.checkpoints import table_rows
from ascpipe.tf.running.hold_between_steps import TableState, hold
from mx_rec.core.asc import FeatureSpec, get_asc_insert_func, start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from tests.support import traces
from tests.support.on_disk import on_disk
from tests.support.tensorflows import use_tensorflow_1
from tests.tf import programs

use_tensorflow_1()

STEPS, SAVED_AT, BATCH_ROWS, DIM = 200, 100, 64, 4
SAVED_BEFORE, DIES_AT = 60, 110
RATES = {"adagrad": 0.2, "ftrl": 0.2, "gradient_descent": 0.2, "lazy_adam": 0.05}


def batches(trace: str) -> List[Dict[str, np.ndarray]]:
    """Batches of the trace, again from its beginning where it ends, each a second after the one before."""
    keys = traces.read(trace)
    keys = np.concatenate([keys] * (-(-BATCH_ROWS * STEPS // len(keys))))[:BATCH_ROWS * STEPS]
    label = (keys.sum(axis=1) % 3 == 0).astype(np.float32)
    return [{"ids": keys[i:i + BATCH_ROWS], "label": label[i:i + BATCH_ROWS], "time": np.int64(1000 + i // BATCH_ROWS)}
            for i in range(0, len(keys), BATCH_ROWS)]


def sizes(tier: str, data: List[Dict[str, np.ndarray]]) -> Dict[str, Any]:
    """Of the table: on the device all keys, or those of the largest batch."""
    distinct = len(np.unique(np.concatenate([batch["ids"] for batch in data])))
    largest = max(len(np.unique(batch["ids"])) for batch in data)
    if tier == "host":
        return {"device_vocabulary_size": largest, "host_vocabulary_size": distinct}
    if tier == "disk":
        return on_disk(largest, distinct)
    return {"device_vocabulary_size": distinct}


def digest(*arrays: np.ndarray) -> str:
    """Of their bytes."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def state_per_key(state: TableState) -> str:
    """Digest of rows, optimizer slots, counts and timestamps in the order of the keys, also of those without a row."""
    parts = [block.joined() for block in table_rows.blocks(state)]
    arrays = [np.concatenate(column) for column in zip(*parts)]
    order = np.argsort(arrays[0])
    counted = list(table_rows.candidates(state))
    others = [np.concatenate(column) for column in zip(*counted)] if counted else []
    places = np.argsort(others[0]) if others else []
    return digest(*[array[order] for array in arrays], *[array[places] for array in others])


def die(*_: Any) -> None:
    """As if from outside."""
    os.kill(os.getpid(), signal.SIGKILL)


def save(saver: Saver, run: tf.compat.v1.Session, case: Dict[str, Any], number: int) -> None:
    """What the case does before a step."""
    model = os.path.join(case["folder"], "model")
    background = bool(case.get("background"))
    every = case.get("every", 0)
    if every:
        if number and number % every == 0:
            saver.save(run, model, global_step=number, background=number % (2 * every) == 0)
        return
    if number == SAVED_BEFORE and ("die_in" in case or case.get("delta")):
        saver.save(run, model, global_step=number)
        if "die_in" in case:
            setattr(CheckpointWriter, case["die_in"], die)
    if number == SAVED_AT:
        saver.save(run, model, global_step=number, background=background, save_delta=bool(case.get("delta")))
    if number == (DIES_AT if background else SAVED_AT) and case.get("kill"):
        wait_for_save()
        die()


def train(case: Dict[str, Any]) -> None:
    """Train from the beginning, or from a checkpoint; save, and be killed or go on."""
    data = batches(case["trace"])
    prefix = case.get("restore")
    skip = trained_batches(prefix)["training"] if prefix else 0
    with programs.ascpipe(use_dynamic_expansion=case["tier"] == "expansion"):
        table = create_table(tf.int64, DIM, "ids", tf.compat.v1.random_normal_initializer(stddev=0.1, seed=5),
                             **case.get("sizes", sizes(case["tier"], data)))
        specs = [FeatureSpec("ids", index_key="ids", access_threshold=2),
                 FeatureSpec("time", index_key="time", is_timestamp=True)]
        dataset = tf.data.Dataset.from_generator(
            lambda: iter(data), {"ids": tf.int64, "label": tf.float32, "time": tf.int64},
            {"ids": [None, data[0]["ids"].shape[1]], "label": [None], "time": []})
        iterator = tf.compat.v1.data.make_initializable_iterator(
            dataset.skip(skip).map(get_asc_insert_func(specs)).prefetch(STEPS))
        taken = iterator.get_next()
        rows = sparse_lookup(table, specs[0], batch=taken)
        logits = tf.reduce_sum(rows, axis=[1, 2])
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=taken["label"], logits=logits))
        trained, (target,) = programs.trained(table)
        gradient, gated = tf.tuple([tf.gradients(loss, trained)[0], loss])
        optimizer = functools.partial(programs.optimizer, case["optimizer"], RATES[case["optimizer"]])
        step = tf.compat.v1.train.get_or_create_global_step()
        update = optimizer().apply_gradients([(gradient, target)], global_step=step)
        start_asc_pipeline()
        saver = Saver()
        with programs.session() as run:
            run.run([iterator.initializer, tf.compat.v1.global_variables_initializer()])
            if prefix:
                saver.restore(run, prefix)
            losses = []
            for number in range(skip, STEPS):
                if not prefix or case.get("every") and number > skip:
                    save(saver, run, case, number)
                if number == SAVED_AT and case.get("until_save"):
                    break
                losses.append(run.run([gated, update])[0])
                if case.get("every"):
                    sys.stdout.write("{} {}\n".format(number, losses[-1].tobytes().hex()))
                    sys.stdout.flush()
            with hold(alone=False) as held:
                state = state_per_key(held.table(table.shape.number))
            said = {"losses": digest(np.array(losses[SAVED_AT - skip:])), "state": state, "keys": table.size(),
                    "distinct_losses": len(set(losses))}
            sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    train(json.loads(sys.argv[1]))
