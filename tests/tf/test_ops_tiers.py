"""AscNextPlan and AscLookup over tables that have rows on the device and at home."""
import numpy as np
import pytest
import tensorflow as tf

from ascpipe.layout.words import PLAN_NO_MEMORY, SLOT_FROZEN, SLOT_HOME
from ascpipe.tf.running import native
from tests.support.covering import some
from tests.support.fake_daemon import FakeDaemon
from tests.support.op_graph import DIM, FLOATS, build, first_row, session, stream_shape, table_shape

TRAIN = stream_shape()
EVAL = stream_shape(1, channel=1)


def tiers(number=0, rows=4, home_rows=50, **more):
    return table_shape(number, rows, home_rows, FLOATS, **more)


def trained(graph, place=0):
    """Adds the label of the batch plus 1 to its rows, and twice that to their optimizer slots."""
    channel, table = graph.channels[0], graph.tables[place]
    with graph.graph.as_default():
        slots = channel.plans[place].slots
        step = tf.ones([tf.size(slots), DIM]) * (tf.cast(channel.label, tf.float32) + 1)
        with tf.control_dependencies([channel.embeddings[place]]):
            return tf.group(tf.compat.v1.scatter_add(table, slots, step),
                            tf.compat.v1.scatter_add(graph.slots[place], slots, 2 * step))


class Expected:
    """What rows and optimizer slots of keys must be, in plain dictionaries."""

    def __init__(self, table):
        self.table, self.rows, self.slots = table, {}, {}

    def row(self, key):
        return self.rows.setdefault(key, first_row(self.table, key))

    def train(self, label, ids):
        for key in sorted(set(ids)):
            self.rows[key] = self.row(key) + np.float32(label + 1)
            self.slots[key] = self.slots.get(key, np.full(DIM, 0.25, np.float32)) + np.float32(2 * (label + 1))


def require_truth(daemon, opened, graph, expected, place=0):
    """Every key has its row and its optimizer slot, on the device or at home."""
    table = daemon.tables[place]
    daemon.pipeline.table_size(place)  # all is retired
    rows, slots = opened.run([graph.tables[place], graph.slots[place]])
    assert sorted(table.truth.homes) == sorted(expected.rows)
    for key, home in table.truth.homes.items():
        if key in table.truth.slots:
            slot = table.truth.slots[key]
            found = np.concatenate([rows[slot], slots[slot]])
        else:
            found = table.home[home]
        assert np.array_equal(found, np.concatenate([expected.rows[key], expected.slots[key]])), key


@pytest.mark.parametrize(("threads", "prefetch"), [(1, 0), (2, 5)])
def test_rows_that_come_and_go_keep_what_was_trained(threads, prefetch):
    random = np.random.RandomState(5)
    batches = [random.randint(0, 20, random.randint(1, 5)).tolist() for _ in range(60)]
    table, expected = tiers(), Expected(tiers())
    with FakeDaemon([table], [TRAIN]) as daemon:
        graph = build(batches, [TRAIN], [table], slots=True, prefetch=prefetch)
        train = trained(graph)
        with session(graph, threads=threads) as opened:
            for label, ids in enumerate(batches):
                rows, _ = opened.run([graph.channels[0].embeddings[0], train])
                assert np.array_equal(rows, [expected.row(key) for key in ids])
                expected.train(label, ids)
            require_truth(daemon, opened, graph, expected)


def test_long_moves_are_shared_among_threads_and_exact():
    random = np.random.RandomState(6)
    batches = [random.permutation(9000)[:3500].tolist() for _ in range(5)]
    table, expected = tiers(rows=4000, home_rows=9000), Expected(tiers())
    with FakeDaemon([table], [TRAIN], arena_bytes=1 << 21) as daemon:
        graph = build(batches, [TRAIN], [table], slots=True)
        train = trained(graph)
        with session(graph, threads=4) as opened:
            for label, ids in enumerate(batches):
                rows, _ = opened.run([graph.channels[0].embeddings[0], train])
                assert np.array_equal(rows, [expected.row(key) for key in ids])
                expected.train(label, ids)
            require_truth(daemon, opened, graph, expected)


@pytest.mark.parametrize("threads", some([1, 2], 1))
def test_many_tables_move_long_lists_at_once_with_few_threads(threads):
    tables = [tiers(number, 1500, 3000) for number in range(8)]
    stream = stream_shape(tables=tuple(range(8)))
    batches = [list(range(first, first + 1500)) for first in (0, 1500, 0, 1500)]
    with FakeDaemon(tables, [stream], arena_bytes=1 << 22) as daemon:
        graph = build(batches, [stream], tables, slots=True)
        train = [trained(graph, place) for place in range(8)]
        with session(graph, threads=threads) as opened:
            for _ in batches:
                opened.run(train)
            for place in range(8):
                assert daemon.pipeline.table_size(place) == 3000
                assert np.allclose(daemon.tables[place].home[1499, DIM:], 0.25 + 2 * (1 + 3))


def test_a_session_that_is_opened_anew_finds_rows_at_home():
    table = tiers(rows=2)
    batches = [[1, 2], [3, 4], [1, 2]]
    with FakeDaemon([table], [TRAIN]):
        graph = build(batches, [TRAIN], [table], slots=True)
        train = trained(graph)
        with session(graph) as opened:
            opened.run(train)
            opened.run(train)
        with session(graph, initialize=False) as opened:
            opened.run(train)  # the dataset begins anew: keys 1 and 2 come from home
            rows, slots = opened.run([graph.tables[0], graph.slots[0]])
    assert np.array_equal(rows[0], first_row(table, 1) + np.float32(1) + np.float32(1))
    assert slots[0].tolist() == [0.25 + 2 + 2] * DIM


# ---- evaluation

def test_an_evaluation_reads_rows_on_the_device_at_home_and_of_unknown_keys():
    table = tiers(rows=2)
    with FakeDaemon([table], [TRAIN, EVAL]):
        graph = build([[1, 2], [3], [9, 1, 3, 2]], [TRAIN, EVAL], [table], slots=True)
        train, evaluate = trained(graph), graph.channels[1]
        with session(graph) as opened:
            opened.run(train)
            opened.run(train)
            opened.run(evaluate.label)
            opened.run(evaluate.label)
            plan, rows = opened.run([evaluate.plans[0], evaluate.embeddings[0]])
            expected = [np.zeros(DIM), first_row(table, 1) + np.float32(1), first_row(table, 3) + np.float32(2),
                        first_row(table, 2) + np.float32(1)]
            assert np.array_equal(rows, np.array(expected, np.float32))
            assert plan.slots.tolist() == [-1, SLOT_HOME, 0, 1]


def test_an_evaluation_of_any_size_fits_a_small_device():
    table = tiers(rows=4, home_rows=200)
    batches = [list(range(first, first + 4)) for first in range(0, 120, 4)] + [list(range(150))]
    with FakeDaemon([table], [TRAIN, EVAL]):
        graph = build(batches, [TRAIN, EVAL], [table], slots=True)
        train, evaluate = trained(graph), graph.channels[1]
        with session(graph) as opened:
            for _ in batches[:-1]:
                opened.run(train)
                opened.run(evaluate.label)
            rows = opened.run(evaluate.embeddings[0])
    expected = [first_row(table, key) + np.float32(key // 4 + 1) if key < 120 else np.zeros(DIM) for key in range(150)]
    assert np.array_equal(rows, np.array(expected, np.float32))


def test_an_answer_that_names_a_home_row_without_memory_is_refused():
    table = tiers(rows=2)
    with FakeDaemon([table], [TRAIN, EVAL]) as daemon:
        graph = build([[1, 2], [3, 4], [1]], [TRAIN, EVAL], [table], slots=True)
        with session(graph) as opened:
            opened.run(graph.channels[0].plans[0].slots)
            opened.run(graph.channels[0].plans[0].slots)
            daemon.tables[0].header["homes_ready"] = 0
            with pytest.raises(tf.errors.DataLossError, match="E301: table 'table0': .*ticket 1 gives key 0 of"):
                opened.run(graph.channels[1].plans[0].slots)


@pytest.mark.parametrize(("slot", "number", "text"), [
    (SLOT_HOME - 50, 0, "slot -52 at index 1 is home row 50, table 0 has 50"),
    (-2 ** 31, 0, "is home row 2147483646, table 0 has 50"),
    (SLOT_HOME, 7, "table 7 is not of this pipeline"),
    (SLOT_HOME, 1, "slot -2 at index 1 is home row 0, table 1 has 0"),
])
def test_a_lookup_reads_no_home_row_beyond_the_last(slot, number, text):
    with FakeDaemon([tiers(), table_shape(1)], [stream_shape(tables=(0, 1))]):
        with tf.Graph().as_default(), tf.compat.v1.Session() as opened:
            variable = tf.compat.v1.Variable(tf.ones([4, DIM]), trainable=False, use_resource=False)
            rows = native.ops().asc_lookup(variable, [0, slot], [[0, 1]], 0.0, table=number)
            opened.run(variable.initializer)
            with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.FailedPreconditionError), match=text):
                opened.run(rows)


def test_home_rows_of_another_length_are_refused():
    with FakeDaemon([tiers()], [TRAIN]):
        with tf.Graph().as_default(), tf.compat.v1.Session() as opened:
            variable = tf.compat.v1.Variable(tf.ones([4, DIM + 1]), trainable=False, use_resource=False)
            rows = native.ops().asc_lookup(variable, [SLOT_HOME], [[0]], 0.0, table=0)
            opened.run(variable.initializer)
            with pytest.raises(tf.errors.InvalidArgumentError, match="rows of 5 floats .* of table 'table0', .* dim 4"):
                opened.run(rows)


# ---- padding keys

def test_rows_of_padding_keys_are_looked_up_and_marked_as_frozen():
    table = tiers(padding_keys=(3, 0, 3))
    with FakeDaemon([table], [TRAIN, EVAL]):
        graph = build([[5, 0, 3], [0, 7]], [TRAIN, EVAL], [table], slots=True)
        train, evaluate = graph.channels
        with graph.graph.as_default():
            plan = train.plans[0]
            grads = native.ops().asc_lookup_grad(plan.slots, plan.restore, [tf.ones([3, DIM])], dim=DIM)
        with session(graph) as opened:
            slots, rows, found = opened.run([plan.slots, train.embeddings[0], grads])
            assert slots.tolist() == [0, 1 + SLOT_FROZEN, 2 + SLOT_FROZEN]
            assert np.array_equal(rows, [first_row(table, key) for key in (5, 0, 3)])
            assert found.indices.tolist() == [0]
            assert opened.run(evaluate.plans[0].slots).tolist() == [0, 1, 2]
            assert opened.run(plan.slots).tolist() == [1 + SLOT_FROZEN, 3]


# ---- what cannot be planned

def test_a_batch_that_the_device_cannot_hold_is_refused_and_the_next_goes_on():
    table, expected = tiers(rows=3), Expected(tiers())
    batches = [[1, 2, 3], [4, 5, 6, 7], [1, 8]]
    with FakeDaemon([table], [TRAIN]) as daemon:
        graph = build(batches, [TRAIN], [table], slots=True, prefetch=3)
        train = trained(graph)
        with session(graph) as opened:
            opened.run(train)
            with pytest.raises(tf.errors.ResourceExhaustedError,
                               match="'table0': batch 2 has 4 distinct ids .* there are 3 device rows. "
                                     "Raise device_vocabulary_size .* Nothing was lost"):
                opened.run(train)
            opened.run(train)
            for label in (0, 2):
                expected.train(label, batches[label])
            require_truth(daemon, opened, graph, expected)


def test_a_full_host_is_refused_and_the_next_goes_on():
    table = tiers(home_rows=5)
    with FakeDaemon([table], [TRAIN]) as daemon:
        graph = build([[1, 2, 3], [4, 5, 6], [3, 7]], [TRAIN], [table], slots=True, prefetch=3)
        train = trained(graph)
        with session(graph) as opened:
            opened.run(train)
            with pytest.raises(tf.errors.ResourceExhaustedError,
                               match="needs 6 host rows for batch 2, but has 5. Raise host_vocabulary_size"):
                opened.run(train)
            opened.run(train)
            assert daemon.pipeline.table_size(0) == 4


def test_a_machine_without_memory_is_an_error_that_loses_nothing():
    table = tiers()
    with FakeDaemon([table], [TRAIN]) as daemon:
        def short(ring, number, index):
            if number == 1:
                ring.part(number, index)["status"] = PLAN_NO_MEMORY
                ring.part(number, index)["need"] = 7

        daemon.before_planned = short
        graph = build([[1], [2], [3]], [TRAIN], [table], slots=True)
        train = trained(graph)
        with session(graph) as opened:
            opened.run(train)
            with pytest.raises(tf.errors.ResourceExhaustedError, match="no shared memory left for 7 entries"):
                opened.run(train)
            opened.run(train)


def test_optimizer_slots_that_do_not_fit_the_home_row_are_refused_before_the_claim():
    table = tiers()
    with FakeDaemon([table], [TRAIN]) as daemon:
        graph = build([[1], [2]], [TRAIN], [table])  # no slot variables
        with session(graph) as opened:
            for _ in range(2):
                with pytest.raises(tf.errors.InvalidArgumentError,
                                   match="'table0': the embedding .4 floats. and its 0 optimizer slots have 4 floats a "
                                         "row, but the table's rows on the host have 8. Nothing was moved or lost"):
                    opened.run(graph.channels[0].plans[0].slots)
            assert daemon.pipeline.table_size(0) == 0
            assert daemon.rings[0].header["trained"] == 0


@pytest.mark.parametrize(("name", "value", "text"), [
    ("out_slots", 4, "moves slot 4 of 4 to home row 0 of 50"),
    ("out_slots", -1, "moves slot -1 of 4"),
    ("out_homes", 50, "moves slot 0 of 4 to home row 50 of 50"),
    ("out_homes", -1, "moves slot 0 of 4 to home row -1 of 50"),
    ("move_in", 2, "gives a row to index 2 of 2, which has no slot"),
    ("homes", 50, "gives a row to index 0 with home row 50 of 50"),
])
def test_a_damaged_record_moves_no_row_and_ends_the_run(name, value, text):
    table = tiers()
    with FakeDaemon([table], [TRAIN]) as daemon:
        def damage(ring, number, index):
            if number == 1:
                ring.array(number, index, name)[0] = value

        daemon.before_planned = damage
        graph = build([[1, 2, 3, 4], [5, 6], [7]], [TRAIN], [table], slots=True)
        train = trained(graph)
        with session(graph) as opened:
            opened.run(train)
            rows, home = opened.run(graph.tables[0]), daemon.tables[0].home.copy()
            with pytest.raises(tf.errors.DataLossError, match="E301: table 'table0': the record of ticket 2 " + text):
                opened.run(train)
            assert np.array_equal(opened.run(graph.tables[0]), rows)
            assert np.array_equal(daemon.tables[0].home, home)
            with pytest.raises(tf.errors.DataLossError, match="E301"):
                opened.run(train)
