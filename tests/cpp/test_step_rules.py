"""Random steps: the C++ rules return the layouts of the reference implementation, and the layouts can run."""
import json
import random
import subprocess

import pytest

from tests.cpp.test_core import HERE, shipped
from tests.reference import step as rules
from tests.reference.step_rules import decide


@pytest.fixture(scope="module")
def print_layouts():
    program = shipped("print_layouts", [HERE / "print_layouts.cc"])
    yield program
    program.unlink()


def closed(edges, count):
    after = {first: {b for a, b in edges if a == first} for first in range(count)}
    for first in reversed(range(count)):  # edges lead to higher numbers
        for item in sorted(after[first]):
            after[first] |= after[item]
    return {(first, item) for first in after for item in after[first]}


class Drawn:
    """A random step. Most values are drawn from small sets, so that ops are equal and orders differ."""

    def __init__(self, seed):
        self.numbers = random.Random(seed)
        self.count = self.numbers.randrange(4, 26)
        density = self.numbers.choice((0.0, 0.02, 0.08, 0.2))
        edges = {(a, b) for a in range(self.count) for b in range(a + 1, self.count) if self.chance(density)}
        self.order = closed(edges, self.count)
        items = self.numbers.sample(range(self.count), self.count)
        third = self.count // 3
        self.writers, self.evaluations, self.free = items[:third], items[third:third + 2], items[third + 2:]
        self.changes = self.numbers.sample(self.writers, min(len(self.writers), self.numbers.choice((0, 0, 1, 2))))

    def chance(self, of=0.5):
        return self.numbers.random() < of

    def below(self, count):
        return self.numbers.randrange(count)

    def items(self, most=2):
        return self.numbers.sample(range(self.count), self.below(min(most, self.count) + 1))

    def written(self, most=1):
        """Return ops that change or update tables. No reader is such an op."""
        return self.numbers.sample(self.writers, self.below(min(most, len(self.writers)) + 1))

    def evaluated(self):
        return self.numbers.sample(self.evaluations, self.below(2)) if self.chance(0.3) else []

    def uses(self, kinds, counts):
        found = []
        for _ in range(self.below(3)):
            by = self.numbers.choice(kinds)
            if counts[by]:
                found.append((by, self.below(counts[by])))
        others = [use for use in found if use[0] == rules.OTHER]
        return others[:1] or list(dict.fromkeys(found))

    def step(self):
        names = self.numbers.sample("abcdefghijklmnopqrstuvwxyz", self.count)
        ops = [rules.Op(names[item], self.numbers.choice((0, 0, 0, 1)), self.numbers.choice((0, 0, 0, 1)),
                        self.numbers.choice((0, 0, 0, 0, 1, -1)), self.items(1) if self.chance(0.2) else [])
               for item in range(self.count)]
        lookups = self.some(4, lambda item: rules.Lookup(
            item, self.below(3), self.below(3), self.below(2), self.numbers.choice((-1, -1, -1, 0)), self.chance(0.1),
            self.written(), self.evaluated()))
        owners = [lookup for lookup in range(len(lookups)) for _ in range(1 + self.below(2))]
        bag_items = self.some(4, int) if owners else []
        of_bags = [self.below(len(owners)) for _ in bag_items]
        join_items, sum_items = self.some(3, int), self.some(4, int)
        counts = {rules.JOIN: len(join_items), rules.BAG: len(of_bags), rules.ROWS_OF_SUM: len(sum_items),
                  rules.SUM_GRADIENT: len(sum_items), rules.CUT_BEGIN: 2, rules.CUT_SIZE: 2, rules.OTHER: 1}
        likely = [rules.JOIN] * 4 + [rules.SUM_GRADIENT, rules.CUT_BEGIN, rules.CUT_SIZE, rules.OTHER]
        features = self.features(owners, of_bags, likely, counts)
        bags = [rules.Bag(item, feature, self.chance(0.2), self.uses(likely, counts))
                for item, feature in zip(bag_items, of_bags)]
        joins = [rules.Join(item, [self.piece(features, bags) for _ in range(2 + self.below(3))])
                 for item in join_items]
        sums = [self.sum_of(item, features, lookups) for item in sum_items]
        cuts = [rules.Cut(self.below(2), self.chance(), self.uses([rules.SUM_GRADIENT] * 4 + [rules.OTHER], counts))
                for _ in range(2)]
        reads = self.some(1, lambda item: rules.HandleRead(item, self.written(2)))
        self.free = self.numbers.choice(([], self.evaluations)) + self.writers
        plans = self.some(3, self.plan)
        self.free = [item for item in self.free if item not in self.evaluations]
        updates = self.some(4, lambda item: rules.Update(item, self.numbers.choice(("", "f", "f", "g"))))
        changes = self.changes + [plan.item for plan in plans if plan.trains and self.chance(0.9)]
        return rules.Step(ops, self.order, lookups, features, bags, joins, sums, cuts, plans, updates, reads,
                          self.written(2), list(dict.fromkeys(changes)))

    def features(self, owners, of_bags, likely, counts):
        found, has_bags = [], self.chance()
        for number, lookup in enumerate(owners):
            uses = self.uses(likely, counts)
            if has_bags and number in of_bags and self.chance(0.9):
                uses = [(rules.BAG, bag) for bag, of in enumerate(of_bags) if of == number]
            found.append(rules.Feature(lookup, owners[:number].count(lookup), self.below(4), uses))
        return found

    def plan(self, item):
        return rules.Plan(item, self.numbers.choice((0, 0, 1)), self.below(self.count), self.items(),
                          self.numbers.choice((0, 0, 1)), item not in self.evaluations, self.chance(0.8))

    def some(self, most, make):
        """Make up to ``most`` objects. Each object has a unique item, because an op has only one role."""
        count = min(len(self.free), self.below(most + 1))
        items, self.free = self.free[:count], self.free[count:]
        return [make(item) for item in sorted(items)]

    def piece(self, features, bags):
        columns = self.numbers.choice((4, 4, 4, 4, 4, 8, 8, -1))
        combined = [number for number, bag in enumerate(bags) if not bag.is_gradient]
        if combined and self.chance():
            return rules.Piece(self.below(9), -1, self.numbers.choice(combined), columns)
        if features and self.chance(0.8):
            return rules.Piece(self.below(9), self.below(len(features)), -1, columns)
        return rules.Piece(self.below(9), -1, -1, columns)

    def sum_of(self, item, features, lookups):
        drawn = []
        slots, has_bags, whole = self.below(3), self.chance(), self.numbers.choice((-1, 0, 0, 1))
        for _ in range(1 + self.below(2)):
            restore = self.below(4)
            if features and self.chance(0.8):
                feature = self.numbers.choice(features)
                slots, restore = lookups[feature.lookup].slots, feature.restore
            drawn.append(rules.SumFeature(restore, has_bags, whole, self.numbers.choice((4, 4, 4, 8))))
        reads = has_bags and self.chance(0.3)
        return rules.Sum(item, slots, self.written() if reads else [], self.evaluated() if reads else [],
                         drawn)


def words_of(value):
    """Return a step as words. The length of each list or set precedes its elements."""
    if isinstance(value, str):
        return [value or "-"]
    if isinstance(value, (bool, int)):
        return [str(int(value))]
    begin = [] if isinstance(value, tuple) else [str(len(value))]
    return begin + [word for each in (sorted(value) if isinstance(value, set) else value) for word in words_of(each)]


def as_json(layout):
    return json.loads(json.dumps(layout))


def require_runs(step, layout):
    """Require that no op waits for itself after the merges and control edges of a layout."""
    order = rules.Order(step)
    groups = [*layout.sums, *layout.plans, *layout.updates]
    lists = [[step.sums[number].item for number in numbers] for _, numbers in layout.sums]
    lists += [[step.plans[number].item for number in numbers] for _, numbers in layout.plans]
    lists += [[step.updates[number].item for number in numbers] for _, numbers in layout.updates]
    lists += [[step.joins[number].item if kind == "join" else step.bags[number].item if kind == "bag" else item
               for kind, number, _ in outputs] for item, outputs in layout.reads]
    for items in lists:
        order.merge(items)
    if layout.conflict == (-1, -1):
        for first, item in layout.order:
            order.add(first, item)
    ops = set(order.op_of)
    edges = {(order.op_of[a], order.op_of[b]) for a, b in order.edges} - {(op, op) for op in ops}
    for items in lists:  # two members of one op, if one comes after the other
        assert not any((a, b) in step.order for a in items for b in items)
    while ops:
        last = {op for op in ops if not any(a == op for a, _ in edges)}
        assert last, "ops wait for each other"
        ops -= last
        edges = {(a, b) for a, b in edges if b not in last}
    members = [number for _, numbers in groups for number in numbers]
    assert len(members) == sum(len(set(numbers)) for _, numbers in groups)
    bags = [bag for _, outputs in layout.reads for _, _, pieces in outputs for _, bag in pieces if bag >= 0]
    assert len([*bags, *layout.weight_gradients]) >= len(set(bags)) + len(set(layout.weight_gradients))


def require_equal_layouts(program, seeds):
    steps = [Drawn(seed).step() for seed in seeds]
    text = " ".join([str(len(steps)), *(word for step in steps for word in words_of(step))])
    done = subprocess.run([str(program)], check=True, input=text, stdout=subprocess.PIPE, text=True)
    lines = done.stdout.splitlines()
    assert len(lines) == len(steps)
    met = dict.fromkeys(rules.Layout._fields, 0)
    for seed, step, line in zip(seeds, steps, lines):
        layout = decide(step)
        assert json.loads(line) == as_json(layout), seed
        require_runs(step, layout)
        for name, value in zip(layout._fields, layout):
            met[name] += value not in ([], (-1, [], []), (-1, -1))
    return met


def test_rules_of_random_steps_are_those_of_their_twin(print_layouts):
    met = require_equal_layouts(print_layouts, range(4000))
    assert min(met.values()) >= 5, met


@pytest.mark.long
def test_rules_of_many_random_steps_are_those_of_their_twin(print_layouts):
    require_equal_layouts(print_layouts, range(2000, 60000))
