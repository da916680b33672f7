"""The whole stack computes what one dictionary computes, on random streams with random events between steps."""
import functools
import tempfile

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ascpipe.layout.words import CUT_EVICT
from ascpipe.tf import Saver
from ascpipe.tf.running import native
from mx_rec.core.asc import FeatureSpec, get_asc_insert_func, start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.util.ops import import_host_pipeline_ops
from tests.reference import initial_rows
from tests.support.on_disk import on_disk
from tests.support.table_model import Adagrad, Descent, TableModel
from tests.tf import programs
from tests.tf.background import BEFORE_ENTRIES, BEFORE_ROWS, Beside

DIM = 2
SEED = 9
KEYS = st.integers(-6, 17)
DEFAULT = 0.5
RATES = {"adagrad": (0.25, 0.5), "gradient_descent": (0.25,)}  #: learning rate, and where the accumulator begins
#: Sums and steps of small multiples of a power of two are exact, so nothing depends on their order.
GRADIENT = st.integers(-4, 4).map(lambda n: np.float32(n / 8))


class Scenario:
    """What one program does.

    Attributes:
        batches: list of {"ids": int64[n], "gradients": float32[n, DIM], "time": int64}.
        events: per step, (what, argument) before it: ("threshold", n), ("evict", age), ("evaluate", keys),
            ("reset", 0), ("save", (point, moments)): in the background, see ``Beside``.
        threshold, coefficient, device_rows, host_rows, disk_rows, expansion, padding, optimizer: of the table.
    """

    def __init__(self, **fields):
        self.__dict__.update(fields)

    def __repr__(self):
        return "Scenario({})".format(", ".join("{}={!r}".format(*item) for item in sorted(self.__dict__.items())))


@st.composite
def scenarios(draw):
    batches, time = [], 1000
    for _ in range(draw(st.integers(3, 14))):
        ids = draw(st.lists(KEYS, max_size=10))
        gradients = draw(st.lists(st.lists(GRADIENT, min_size=DIM, max_size=DIM), min_size=len(ids), max_size=len(ids)))
        time += draw(st.integers(-5, 20))
        batches.append({"ids": np.array(ids, np.int64), "time": np.int64(time),
                        "gradients": np.array(gradients, np.float32).reshape(len(ids), DIM)})
    event = st.one_of(
        st.tuples(st.just("threshold"), st.integers(0, 4)), st.tuples(st.just("evict"), st.integers(0, 60)),
        st.tuples(st.just("evaluate"), st.lists(KEYS, min_size=1, max_size=6)), st.just(("reset", 0)),
        st.tuples(st.just("save"), st.tuples(st.sampled_from([BEFORE_ENTRIES, BEFORE_ROWS]), st.integers(0, 6))))
    events = {step: draw(st.lists(event, max_size=2)) for step in range(len(batches)) if draw(st.booleans())}
    largest = max(1, max(len(set(batch["ids"].tolist())) for batch in batches))
    tier = draw(st.sampled_from(["device", "one batch", "half", "disk", "expansion"]))
    return Scenario(
        batches=batches, events=events, threshold=draw(st.sampled_from([-1, 0, 1, 2, 5])),
        coefficient=draw(st.sampled_from([1, 2])), padding=draw(st.lists(KEYS, max_size=2, unique=True)),
        device_rows={"device": 40, "one batch": largest, "half": max(largest, 12), "disk": largest,
                     "expansion": 1}[tier],
        host_rows=0 if tier in ("device", "disk") else 40, disk_rows=40 if tier == "disk" else 0,
        expansion=tier == "expansion",
        optimizer=draw(st.sampled_from(["gradient_descent", "adagrad"])))


def first_row(key):
    return np.array(initial_rows.row(SEED, initial_rows.NORMAL, 0.0, 1.0, 1.0, key, DIM), np.float32)


def expected(scenario):
    """What each event and step gives, and the size of the table after it."""
    optimizer = {"adagrad": Adagrad, "gradient_descent": Descent}[scenario.optimizer](*RATES[scenario.optimizer])
    model = TableModel(first_row, optimizer, scenario.threshold, scenario.coefficient, scenario.padding)
    for step, batch in enumerate(scenario.batches):
        for what, argument in scenario.events.get(step, ()):
            if what == "evaluate":
                yield model.evaluate(argument), model.size()
            elif what == "save":
                yield None, model.size()
            else:
                {"threshold": model.set_threshold, "evict": model.evict, "reset": model.reset}[what](argument)
                yield None, model.size()
        ids = batch["ids"].tolist()
        yield model.train(ids, batch["gradients"], int(batch["time"]), DEFAULT), model.size()


def found(scenario):
    """The same from the real thing."""
    with programs.ascpipe(use_dynamic_expansion=scenario.expansion):
        table = create_table(
            tf.int64, DIM, "ids", tf.compat.v1.random_normal_initializer(stddev=1.0, seed=SEED),
            **_sizes(scenario),
            **({"padding_keys": scenario.padding, "padding_keys_mask": True, "padding_keys_len": len(scenario.padding)}
               if scenario.padding else {}))
        iterator, rows, batch = _lookup(table, scenario, scenario.batches, training=True)
        optimizer = programs.optimizer(scenario.optimizer, *RATES[scenario.optimizer])
        loss = tf.reduce_sum(rows * batch["gradients"])
        trained_rows, (target,) = programs.trained(table)
        (gradient,) = tf.gradients(loss, trained_rows)
        with tf.control_dependencies([rows]):  # ref variables race with their own update otherwise
            train = optimizer.apply_gradients([(gradient, target)])
        questions = [{"ids": np.array(argument, np.int64), "time": np.int64(1),
                      "gradients": np.zeros((len(argument), DIM), np.float32)}
                     for step in sorted(scenario.events) for what, argument in scenario.events[step]
                     if what == "evaluate"]
        if questions:
            eval_iterator, eval_rows, _ = _lookup(table, scenario, questions, training=False)
        argument_of = tf.compat.v1.placeholder(tf.int64, [])
        events = {
            "threshold": import_host_pipeline_ops().set_threshold(tf.cast(argument_of, tf.int32), emb_name="ids"),
            "evict": native.ops().asc_cut(argument=argument_of, table=table.shape.number, kind=CUT_EVICT),
            "reset": table.variable.initializer,
        }
        start_asc_pipeline()
        saver = Saver(max_to_keep=None, allow_empty=True)
        with programs.session() as run, tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            saves = Beside(patch, functools.partial(saver.save, run), folder)
            run.run([iterator.initializer, tf.compat.v1.global_variables_initializer()])
            if questions:
                run.run(eval_iterator.initializer)
            for step in range(len(scenario.batches)):
                for what, argument in scenario.events.get(step, ()):
                    if what == "evaluate":
                        yield run.run(eval_rows), table.size()
                    elif what == "save":
                        saves.begin(*argument)
                        yield None, table.size()
                    else:
                        saves.let_go()  # what changes many entries waits until they are copied
                        run.run(events[what], {argument_of: argument})
                        yield None, table.size()
                moment = run.run([rows, train])[0], table.size()
                saves.passed()
                if step == len(scenario.batches) - 1:  # nobody asks for more than the last moment
                    saves.end()
                yield moment


def _sizes(scenario):
    if scenario.disk_rows:
        return on_disk(scenario.device_rows, scenario.disk_rows)
    return {"device_vocabulary_size": scenario.device_rows, "host_vocabulary_size": scenario.host_rows}


def _lookup(table, scenario, batches, training):
    spec = FeatureSpec("ids", table_name="ids", index_key="ids", access_threshold=scenario.threshold,
                       eviction_threshold=10, faae_coefficient=scenario.coefficient)
    specs = [spec] + ([FeatureSpec("time", index_key="time", is_timestamp=True)] if training else [])
    data = programs.dataset(batches).map(get_asc_insert_func(specs, is_training=training)).prefetch(8)
    iterator = tf.compat.v1.data.make_initializable_iterator(data)
    batch = iterator.get_next()
    default = tf.constant(DEFAULT) if training else None
    return iterator, sparse_lookup(table, spec, is_train=training, batch=batch, serving_default_value=default), batch


def compare(scenario):
    moments = zip(expected(scenario), found(scenario))
    for moment, ((rows, size), (found_rows, found_size)) in enumerate(moments):
        assert found_size == size, "size after moment {}".format(moment)
        if rows is not None and len(rows):
            np.testing.assert_allclose(found_rows, rows, rtol=2e-6, atol=1e-7, err_msg="moment {}".format(moment))


_OPTIONS = {"deadline": None, "suppress_health_check": list(HealthCheck), "print_blob": True}


@pytest.mark.timeout_s(120)
@settings(max_examples=6, **_OPTIONS)
@given(scenarios())
def test_a_program_computes_what_a_dictionary_computes(scenario):
    compare(scenario)


@pytest.mark.long
@pytest.mark.timeout_s(900)
@settings(max_examples=300, **_OPTIONS)
@given(scenarios())
def test_many_programs_compute_what_a_dictionary_computes(scenario):
    compare(scenario)
