"""Checkpoints of which some tables have no key restore, begin other trainings and are exported, in every combination.

A table may have no key because its feature is empty, because no key occurred often enough, because all were evicted, or
because training never looks it up.
"""
from random import Random

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from tests.support.on_disk import on_disk
from tests.tf import twin_programs

v1 = tf.compat.v1
STEPS, MORE, KEYS, DIM = 4, 2, 9, 2  # steps before a save, and after it
REASONS = ["trained", "no ids", "filtered", "evicted", "evaluated only"]
POLICIES = {"filtered": {"access_threshold": 1000}, "evicted": {"eviction_threshold": 2}}
TIERS = {"device": {"device_vocabulary_size": 32}, "host": {"device_vocabulary_size": 8, "host_vocabulary_size": 64},
         "disk": on_disk(8, 64), "expansion": {}}
WAYS = ["restored", "warm-started", "exported"]


def batches(reasons, begin, end):
    """Yield batches of ids, for a table of each reason. Keys of an evicted table occur in the first step only."""
    random = np.random.RandomState(7)
    for step in range(STEPS + MORE):
        batch = {"time": np.int64(step + 1)}
        for number, reason in enumerate(reasons):
            ids = random.randint(0, KEYS, 5)
            is_empty = reason == "no ids" or reason == "evicted" and 0 < step < STEPS
            batch["table{}".format(number)] = ids[:0] if is_empty else ids
        if begin <= step < end:
            yield batch


class Program:
    """A table for each reason, all trained by one loss.

    Attributes:
        tables: the tables.
        saver: saves and restores them.
        load: loads the tables of a checkpoint, or None.
    """

    def __init__(self, reasons, tiers, begin=0, end=STEPS + MORE, warm=None):
        names = ["table{}".format(number) for number in range(len(reasons))]
        self.tables = [asc.create_table(name, DIM, initializer=v1.constant_initializer(0.5), **TIERS[tier])
                       for name, tier in zip(names, tiers)]
        specs = {name: asc.FeatureSpec(name, **POLICIES.get(reason, {})) for name, reason in zip(names, reasons)
                 if reason != "evaluated only"}
        types = {"time": tf.int64, **dict.fromkeys(names, tf.int64)}
        data = tf.data.Dataset.from_generator(lambda: batches(reasons, begin, end), types, {
            "time": [], **dict.fromkeys(names, [None])})
        stamp = asc.FeatureSpec("time", is_timestamp=True)
        data = data.map(asc.insert_function([*specs.values(), stamp])).prefetch(4)
        self._iterator = v1.data.make_initializable_iterator(data)
        batch = self._iterator.get_next()
        weights = v1.get_variable("weights", [DIM], initializer=v1.ones_initializer(), use_resource=True)
        sums = [tf.reduce_sum(asc.sparse_lookup(table, specs[name], batch=batch) * weights)
                for name, table in zip(names, self.tables) if name in specs]
        self._loss = tf.square(tf.add_n([*sums, tf.reduce_sum(weights)]) - 3.0)
        self._train = asc.optimizers.Adagrad(0.1).minimize(self._loss)
        asked = [asc.FeatureSpec("asked_" + name, table_name=name) for name in names]
        every = tf.data.Dataset.from_tensors({spec.index_key: np.arange(KEYS) for spec in asked}).repeat()
        self._reader = v1.data.make_initializable_iterator(every.map(asc.insert_function(asked, training=False)))
        found = self._reader.get_next()
        self._rows = [asc.sparse_lookup(table, spec, batch=found, training=False, default_value=0.0)
                      for table, spec in zip(self.tables, asked)]
        self.load = None if warm is None else asc.warm_start(warm)
        self.saver = v1.train.Saver()
        asc.start()

    def begin(self, session):
        session.run([self._iterator.initializer, self._reader.initializer])

    def state(self, session):
        """Rows of all keys, zeros of those without one, and how many keys have a row."""
        return [each.tolist() for each in session.run(self._rows)], [table.size() for table in self.tables]

    def step(self, session, count):
        return [session.run([self._loss, self._train])[0] for _ in range(count)]


def saved(reasons, tiers, folder):
    """The prefix of a checkpoint, what it has, and the losses of the next steps."""
    program = Program(reasons, tiers)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        program.begin(session)
        program.step(session, STEPS)
        if "evicted" in reasons:
            asc.trigger_evict(session)
        prefix = program.saver.save(session, str(folder / "model"), STEPS)
        return prefix, program.state(session), program.step(session, MORE)


def require_empty_parts_to_come_back(reasons, tiers, way, folder):
    grows = {"use_dynamic_expansion": tiers[0] == "expansion"}
    with twin_programs.ascpipe(**grows):
        prefix, state, losses = saved(reasons, tiers, folder)
    sizes = dict(zip(reasons, state[1]))
    assert all((sizes[reason] > 0) == (reason == "trained") for reason in reasons), sizes
    if way == "exported":
        found = [np.load(path) for path in asc.export_tables(prefix)]
        assert [len(each) for each in found] == state[1]
        for each, rows in zip(found, state[0]):
            np.testing.assert_array_equal(each["embedding"], np.array(rows, np.float32)[each["key"]])
        return
    with twin_programs.ascpipe(**grows):
        program = Program(reasons, tiers, STEPS, warm=prefix if way == "warm-started" else None)
        with v1.Session() as session:
            if way == "restored":
                program.saver.restore(session, prefix)
            else:
                session.run(v1.global_variables_initializer())
                program.load(session)
            program.begin(session)
            assert program.state(session) == state
            if way == "restored":
                assert program.step(session, MORE) == losses


@pytest.mark.parametrize("number", range(6))
def test_tables_without_a_key_come_back_beside_others(number, tmp_path):
    """Each reason, tier and way occurs, two reasons beside each other."""
    reasons = ["trained", REASONS[1 + number % 4], REASONS[1 + (number + 1) % 4]]
    tiers = [["device", "host", "disk"], ["expansion"] * 3][number == 4]
    require_empty_parts_to_come_back(reasons, tiers[number % 3:] + tiers[:number % 3], WAYS[number % 3], tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_many_random_combinations(seed, tmp_path):
    random = Random(seed)
    for number in range(25):
        reasons = ["trained", *random.choices(REASONS[1:], k=random.randint(1, 3))]
        random.shuffle(reasons)
        tiers = random.choices(["device", "host", "disk"], k=4) if random.random() < 0.7 else ["expansion"] * 4
        folder = tmp_path / str(number)
        folder.mkdir()
        way = random.choice(WAYS)
        try:
            require_empty_parts_to_come_back(reasons, tiers[:len(reasons)], way, folder)
        except Exception as error:
            raise AssertionError("{} {} {}: {}".format(reasons, tiers, way, error)) from error
