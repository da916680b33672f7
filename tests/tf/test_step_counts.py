"""The step counts that ``init`` is told may be wrong: they pace nothing, so that nothing hangs and no loss changes."""
import functools
import itertools
import os
import tempfile

import pytest
import tensorflow as tf

from tests.tf import programs, tensor_programs

TRAIN, EVALUATION = programs.batches(12), programs.batches(3, seed=4)
EVALUATE_EACH, EVALUATE_FOR, SAVE_EACH = 3, 2, 4
TOO_FEW, TOO_MANY, COPRIME, PART, NONE = (1, 1, 1), (1000, 999, 998), (7, 5, 11), (-1, 2, 0), (0, 0, 0)

features = functools.partial(programs.Program, send_count=30)
tensors = functools.partial(tensor_programs.Program, send_count=30)
MODES = {
    "features": (features, {}), "tensors": (tensors, {}),
    "features_with_host_rows": (functools.partial(features, rows=40, host_rows=100), {}),
    "tensors_with_host_rows": (functools.partial(tensors, rows=40, host_rows=100), {}),
    "tensors_with_static_shapes": (functools.partial(tensors, host_rows=100), {"use_dynamic": False}),
    "tensors_of_one_shot_iterators": (functools.partial(tensors, one_shot=True), {}),
    "features_with_expansion": (features, {"use_dynamic_expansion": True}),
    "tensors_with_expansion": (tensors, {"use_dynamic_expansion": True})}


def losses(mode, counts):
    """Of training and of evaluations, in their order, with saves in between; ``counts``: train, eval, save steps."""
    program_of, arguments = MODES[mode]
    steps = dict(zip(("train_steps", "eval_steps", "save_steps"), counts))
    with tempfile.TemporaryDirectory() as folder, programs.ascpipe(**steps, **arguments):
        repeated = EVALUATION * (2 * len(TRAIN))  # for an evaluation that cannot begin anew
        one_shot = "one_shot" in mode
        program = program_of(TRAIN, lambda: programs.optimizer("lazy_adam", 0.05),
                             eval_source=repeated if one_shot else EVALUATION)
        saver = tf.compat.v1.train.Saver()
        found = []
        with programs.session() as run:
            program.initialise(run)
            for step in range(1, len(TRAIN) + 1):
                found.append(run.run([program.loss, program.train])[0])
                if step % EVALUATE_EACH == 0:
                    if not one_shot:
                        run.run(program.eval_iterator.initializer)
                    found.extend(run.run(program.eval_loss) for _ in range(EVALUATE_FOR))
                    if one_shot:
                        run.run(program.eval_loss)  # the rest of the three
                if step % SAVE_EACH == 0:
                    saver.save(run, os.path.join(folder, "model"), global_step=step)
        return found


@pytest.fixture(scope="module")
def right():
    """Losses of the program that says how it really runs."""
    found = losses("features", (EVALUATE_EACH, EVALUATE_FOR, SAVE_EACH))
    assert len(set(found)) == len(TRAIN) + EVALUATE_FOR * (len(TRAIN) // EVALUATE_EACH)
    return found


@pytest.mark.parametrize("mode, counts", [
    ("features_with_host_rows", TOO_MANY), ("tensors_with_host_rows", PART), ("tensors_with_static_shapes", NONE),
    ("tensors_of_one_shot_iterators", TOO_FEW), ("features_with_expansion", COPRIME),
    pytest.param("features", TOO_FEW, marks=pytest.mark.long),
    pytest.param("tensors", COPRIME, marks=pytest.mark.long)])
def test_wrong_step_counts_change_nothing(mode, counts, right):
    assert losses(mode, counts) == right


@pytest.mark.long
@pytest.mark.timeout_s(300)
@pytest.mark.parametrize("mode", MODES)
def test_no_step_counts_change_anything(mode, right):
    for counts in itertools.chain((TOO_FEW, TOO_MANY, NONE), itertools.product((-1, 2, 7), repeat=3)):
        assert losses(mode, counts) == right, counts
