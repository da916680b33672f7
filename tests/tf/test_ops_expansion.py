"""AscNextPlan, AscLocalRows and AscRestoreRows over tables whose rows are used at home."""
import numpy as np
import pytest
import tensorflow as tf

from ascpipe.layout.words import CUT_EVICT, SLOT_FROZEN, SLOT_HOME
from ascpipe.tf.running import native
from tests.support.fake_daemon import FakeDaemon
from tests.support.fake_segments import CHUNK_ROWS
from tests.support.op_graph import (
    DIM,
    FLOATS,
    build,
    expansion_shape,
    first_row,
    handle,
    home_row,
    session,
    stream_shape,
    table_shape,
)

TRAIN = stream_shape()
EVAL = stream_shape(1, channel=1)


def trained(graph, place=0):
    """Adds the label of the batch plus 1 to all floats of its rows."""
    channel = graph.channels[0]
    with graph.graph.as_default():
        handles = channel.locals[place].handles
        step = tf.ones([tf.size(handles), FLOATS]) * (tf.cast(channel.label, tf.float32) + 1)
        with tf.control_dependencies([channel.embeddings[place]]):
            return native.ops().asc_write_rows(handles, step, add=True)


# ---- rows begin, grow and are trained in place

@pytest.mark.parametrize(("threads", "prefetch"), [(1, 0), (2, 5)])
def test_a_table_grows_and_its_rows_keep_what_was_trained(threads, prefetch):
    random = np.random.RandomState(5)
    batches = [random.randint(0, 40, random.randint(1, 9)).tolist() for _ in range(50)]
    table, expected, capacities = expansion_shape(), {}, []
    with FakeDaemon([table], [TRAIN]) as daemon:
        graph = build(batches, [TRAIN], [table], prefetch=prefetch)
        train = trained(graph)
        with session(graph, threads=threads) as opened:
            for label, ids in enumerate(batches):
                rows, _ = opened.run([graph.channels[0].embeddings[0], train])
                keep = [expected.setdefault(key, home_row(table, key))[:DIM] for key in ids]
                assert np.array_equal(rows, keep)
                for key in set(ids):
                    expected[key] = expected[key] + np.float32(label + 1)
                capacities.append(daemon.pipeline.table_capacity(0))
            assert daemon.pipeline.table_size(0) == len(expected)
        homes = daemon.tables[0].truth.homes
        assert sorted(homes) == sorted(expected)
        for key, home in homes.items():
            assert np.array_equal(daemon.tables[0].home[home], expected[key]), key
    assert capacities == sorted(capacities)
    assert 2 * CHUNK_ROWS <= capacities[0] + CHUNK_ROWS < capacities[-1] <= 50


def test_new_rows_begin_with_their_initial_row_and_the_value_of_each_optimizer_slot():
    table = table_shape(0, 0, 50, DIM + 3)
    with FakeDaemon([table], [TRAIN]):
        graph = build([[7, 3, 7]], [TRAIN], [table])
        with graph.graph.as_default():
            plan = native.ops().asc_next_plan(graph.channels[0].ticket, [graph.tables[0]], table=0, stream=0, k=1,
                                              training=True, slot_initial=[0.5, -2.0], slot_widths=[1, 2])
            local = native.ops().asc_local_rows(plan.slots, graph.channels[0].ticket, table=0, dim=DIM)
            rows = native.ops().asc_read_rows(local.handles, width=DIM + 3)
        with session(graph) as opened:
            slots, places, embeddings, found = opened.run([plan.slots, local.places, local.local, rows])
    assert slots.tolist() == [SLOT_HOME, SLOT_HOME - 1]
    assert places.tolist() == [0, 1]
    assert np.array_equal(embeddings, found[:, :DIM])
    assert np.array_equal(found, [[*first_row(table, key), 0.5, -2.0, -2.0] for key in (7, 3)])


@pytest.mark.parametrize("threads", [1, 4])
def test_long_batches_are_shared_among_threads_and_exact(threads):
    table = expansion_shape(home_rows=9000)
    batches = [range(first, first + 4000) for first in (0, 4000, 1000)]
    with FakeDaemon([table], [TRAIN], arena_bytes=1 << 21) as daemon:
        graph = build(list(map(list, batches)), [TRAIN], [table])
        train = trained(graph)
        with session(graph, threads=threads) as opened:
            for label, ids in enumerate(batches):
                rows, _ = opened.run([graph.channels[0].embeddings[0], train])
                before = [sum(np.float32(b + 1) for b in range(label) if key in batches[b]) for key in ids]
                assert np.array_equal(rows, [first_row(table, key) + was for key, was in zip(ids, before)])
            assert daemon.pipeline.table_size(0) == 8000


def test_rejected_keys_have_no_row_and_no_handle():
    table = expansion_shape()
    with FakeDaemon([table], [TRAIN, EVAL]) as daemon:
        daemon.tables[0].rejected = {2, 4}
        graph = build([[1, 2, 3, 4]], [TRAIN, EVAL], [table])
        train, (channel, evaluate) = trained(graph), graph.channels
        with graph.graph.as_default():
            rows = native.ops().asc_restore_rows(channel.locals[0].local, channel.locals[0].places,
                                                 channel.plans[0].restore, [9.0, 8.0, 7.0, 6.0])[0]
        with session(graph) as opened:
            slots, local, found, _ = opened.run([channel.plans[0].slots, channel.locals[0], rows, train])
            assert slots.tolist() == [-2, -1, -3, -1]
            assert local.places.tolist() == [0, -1, 2, -1]
            assert local.handles.tolist() == [handle(0, 2, 0), 0, handle(0, 2, 1), 0]
            assert np.array_equal(local.local[[0, 2]], [first_row(table, key) for key in (1, 3)])
            assert np.array_equal(local.local[[1, 3]], np.zeros((2, DIM)))
            assert np.array_equal(found[[1, 3]], [[9, 8, 7, 6]] * 2)
            assert opened.run(evaluate.plans[0].slots).tolist() == [-2, -1, -3, -1]
            assert daemon.pipeline.table_size(0) == 2


def test_padding_keys_are_looked_up_and_get_no_gradient():
    table = expansion_shape(padding_keys=(3, 0))
    with FakeDaemon([table], [TRAIN]) as daemon:
        daemon.tables[0].rejected = {0}
        graph = build([[5, 0, 3]], [TRAIN], [table])
        channel = graph.channels[0]
        with graph.graph.as_default():
            grads = native.ops().asc_lookup_grad(channel.locals[0].places, channel.plans[0].restore,
                                                 [tf.ones([3, DIM])], dim=DIM)
        with session(graph) as opened:
            slots, local, rows, found = opened.run([channel.plans[0].slots, channel.locals[0], channel.embeddings[0],
                                                    grads])
    assert slots.tolist() == [SLOT_HOME, -1, SLOT_HOME - 1 + SLOT_FROZEN]
    assert local.places.tolist() == [0, -1, 2 + SLOT_FROZEN]
    assert np.array_equal(rows, [first_row(table, 5), np.zeros(DIM), first_row(table, 3)])
    assert np.array_equal(local.local[2], first_row(table, 3))
    assert found.indices.tolist() == [0]


def test_an_evaluation_reads_rows_where_they_lie():
    table = expansion_shape()
    with FakeDaemon([table], [TRAIN, EVAL]):
        graph = build([[1, 2], [9, 2, 1]], [TRAIN, EVAL], [table])
        train, evaluate = trained(graph), graph.channels[1]
        with session(graph) as opened:
            opened.run(train)
            opened.run(evaluate.label)
            rows = opened.run(evaluate.embeddings[0])
    expected = [np.zeros(DIM), first_row(table, 2) + np.float32(1), first_row(table, 1) + np.float32(1)]
    assert np.array_equal(rows, np.array(expected, np.float32))


def test_an_initializer_begins_anew_and_an_evicted_key_does():
    table = expansion_shape()
    with FakeDaemon([table], [TRAIN]) as daemon:
        graph = build([[1, 2], [3], [1]], [TRAIN], [table], stamps=[100, 200, 300])
        with graph.graph.as_default():
            evict = native.ops().asc_cut(100, table=0, kind=CUT_EVICT)
        train = trained(graph)
        with session(graph) as opened:
            opened.run(train)
            opened.run(train)
            opened.run(evict)
            assert daemon.pipeline.table_size(0) == 1
            rows, _ = opened.run([graph.channels[0].embeddings[0], train])
            assert np.array_equal(rows, [first_row(table, 1)])
            opened.run(graph.tables[0].initializer)
            assert daemon.pipeline.table_size(0) == 0
            opened.run(graph.channels[0].iterator.initializer)
            rows, _ = opened.run([graph.channels[0].embeddings[0], train])
            assert np.array_equal(rows, [first_row(table, key) for key in (1, 2)])


# ---- what cannot be

@pytest.mark.parametrize(("slots", "table", "dim", "text"), [
    ([SLOT_HOME - CHUNK_ROWS], 0, DIM, "slot -10 at index 0 is neither -1 nor one of the 8 home rows"),
    ([-1, 0], 0, DIM, "slot 0 at index 1"),
    ([SLOT_HOME], 0, DIM + 1, "rows of 5 floats of table 'table0', which has dim 4"),
    ([SLOT_HOME], 1, DIM, "rows of table 'table1' have no handles"),
    ([SLOT_HOME], 2, DIM, "there is no table 2 in this pipeline"),
    ([SLOT_HOME], 255, DIM, r"table number 255 is outside \[0, 254\]"),
])
def test_slots_that_are_not_of_the_plan_get_no_handles(slots, table, dim, text):
    tables, streams = [expansion_shape(), table_shape(1)], [stream_shape(tables=(0, 1))]
    with FakeDaemon(tables, streams):
        graph = build([[1]], streams, tables)
        with graph.graph.as_default(), tf.control_dependencies([plan.slots for plan in graph.channels[0].plans]):
            local = native.ops().asc_local_rows(slots, graph.channels[0].ticket, table=table, dim=dim)
        with session(graph) as opened:
            with pytest.raises(tf.errors.InvalidArgumentError, match=text):
                opened.run(local)


def test_slots_are_valid_in_the_step_of_their_plan():
    with FakeDaemon([expansion_shape()], [TRAIN]):
        graph = build([[1], [2]], [TRAIN], [expansion_shape()])
        with graph.graph.as_default():
            local = native.ops().asc_local_rows([SLOT_HOME], graph.channels[0].ticket, table=0, dim=DIM)
        with session(graph) as opened:
            opened.run(graph.channels[0].embeddings[0])
            with pytest.raises(tf.errors.FailedPreconditionError, match="'table0' is not training ticket 2 now"):
                opened.run(local)


@pytest.mark.parametrize(("table", "attributes", "text"), [
    (expansion_shape(), {"slot_initial": [], "slot_widths": []}, "its 0 optimizer slots have 4 floats .* have 8"),
    (expansion_shape(), {"slot_initial": [0.0], "slot_widths": [5]}, "its 1 optimizer slots have 9 floats .* have 8"),
    (expansion_shape(), {"slot_initial": [0.0], "slot_widths": [0]}, "slot_widths has an optimizer slot of 0 floats"),
    (expansion_shape(), {"slot_initial": [], "slot_widths": [4]}, "0 values in slot_initial for 1 optimizer slots"),
    (expansion_shape(), {"slot_initial": [0.0], "slot_widths": [], "states": 2},
     "'table0' has its optimizer slots in home rows"),
    (table_shape(), {"slot_initial": [0.0], "slot_widths": [4]}, "'table0' has its optimizer slots in variables"),
])
def test_optimizer_slots_that_do_not_fit_the_table_are_refused_before_the_claim(table, attributes, text):
    with FakeDaemon([table], [TRAIN]) as daemon:
        graph = build([[1]], [TRAIN], [table])
        with graph.graph.as_default():
            plan = native.ops().asc_next_plan(
                graph.channels[0].ticket, graph.tables * attributes.pop("states", 1), table=0, stream=0, k=1,
                training=True, **attributes)
        with session(graph) as opened:
            with pytest.raises(tf.errors.InvalidArgumentError, match=text):
                opened.run(plan.slots)
            assert daemon.pipeline.table_size(0) == 0


@pytest.mark.parametrize(("name", "value", "text"), [
    ("homes", CHUNK_ROWS, "ticket 2 gives key 0 of 1 the place {}, which is outside the table".format(CHUNK_ROWS)),
    ("homes", -1, "ticket 2 gives a row to index 0 of 1, which has no slot or home row"),
    ("load_count", 1, "moves 1 new rows and 1 rows from the host for 1 distinct ids"),
    ("out_count", 1, "moves 0 rows from and 1 rows to the host, but rows of this table stay where they are"),
])
def test_a_damaged_record_begins_no_row_and_ends_the_run(name, value, text):
    table = expansion_shape()
    with FakeDaemon([table], [TRAIN]) as daemon:
        def damage(ring, number, index):
            if number == 1 and name.endswith("count"):
                ring.part(number, index)[name] = value
            elif number == 1:
                ring.array(number, index, name)[0] = value

        daemon.before_planned = damage
        graph = build([[1], [2], [3]], [TRAIN], [table])
        with session(graph) as opened:
            opened.run(graph.channels[0].embeddings[0])
            home = daemon.tables[0].home.copy()
            with pytest.raises(tf.errors.DataLossError, match="E301: table 'table0': .*" + text):
                opened.run(graph.channels[0].embeddings[0])
            assert np.array_equal(daemon.tables[0].home, home)


def test_an_answer_that_names_the_row_of_the_variable_is_refused():
    table = expansion_shape()
    with FakeDaemon([table], [TRAIN, EVAL]) as daemon:
        graph = build([[1], [1]], [TRAIN, EVAL], [table])
        with session(graph) as opened:
            opened.run(graph.channels[0].embeddings[0])
            daemon.pipeline.table_size(0)
            daemon.tables[0].truth.slots[1] = 0
            with pytest.raises(tf.errors.DataLossError, match="E301: table 'table0': .* gives key 0 of 1 the place 0"):
                opened.run(graph.channels[1].plans[0].slots)


def test_a_table_that_has_grown_to_its_limit_refuses_a_batch_and_the_next_goes_on():
    table = expansion_shape(home_rows=3)
    with FakeDaemon([table], [TRAIN]) as daemon:
        graph = build([[1, 2], [3, 4], [2, 5]], [TRAIN], [table])
        train = trained(graph)
        with session(graph) as opened:
            opened.run(train)
            with pytest.raises(tf.errors.ResourceExhaustedError,
                               match="needs 4 rows for batch 2, but has grown to its limit of 3 rows.* Nothing was"):
                opened.run(train)
            opened.run(train)
            assert daemon.pipeline.table_size(0) == daemon.pipeline.table_capacity(0) == 3


def test_more_rows_than_codes_can_name_are_refused():
    with FakeDaemon([table_shape()], [TRAIN]) as daemon:
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"1000000001 rows .* \(1 to 1000000000\)"):
            daemon.pipeline.add_table(expansion_shape(1, 10 ** 9 + 1), (0, 4096))
