"""Structs and order of ``tfops/src/step/step.h`` in plain Python.

Items are numbers of ops, and values are numbers of their outputs; -1 is none.
"""
from typing import Iterable, List, NamedTuple, Set, Tuple

JOIN, BAG, ROWS_OF_SUM, SUM_GRADIENT, CUT_BEGIN, CUT_SIZE, OTHER = range(7)
Use = Tuple[int, int]  # kind of the user, and its number


class Op(NamedTuple):
    name: str
    device: int
    frame: int
    branch: int
    waits: List[int]


class Lookup(NamedTuple):
    item: int
    rows: int
    slots: int
    default_row: int
    table: int
    is_copy: bool
    updates: List[int]
    evaluations: List[int]


class Feature(NamedTuple):
    lookup: int
    output: int
    restore: int
    uses: List[Use]


class Bag(NamedTuple):
    item: int
    feature: int
    is_gradient: bool
    uses: List[Use]


class Piece(NamedTuple):
    value: int
    feature: int
    bag: int
    columns: int


class Join(NamedTuple):
    item: int
    pieces: List[Piece]


class SumFeature(NamedTuple):
    restore: int
    has_bags: bool
    whole: int
    columns: int


class Sum(NamedTuple):
    item: int
    slots: int
    updates: List[int]
    evaluations: List[int]
    features: List[SumFeature]

    @property
    def has_bags(self) -> bool:
        return any(feature.has_bags for feature in self.features)


class Cut(NamedTuple):
    whole: int
    has_known_place: bool
    uses: List[Use]


class Plan(NamedTuple):
    item: int
    ticket: int
    ticket_source: int
    inputs: List[int]
    stream: int
    trains: bool
    may_merge: bool


class Update(NamedTuple):
    item: int
    formula: str


class HandleRead(NamedTuple):
    item: int
    writes: List[int]


class Step(NamedTuple):
    ops: List[Op]
    order: Set[Tuple[int, int]]  # closed: (first, item)
    lookups: List[Lookup]
    features: List[Feature]
    bags: List[Bag]
    joins: List[Join]
    sums: List[Sum]
    cuts: List[Cut]
    plans: List[Plan]
    updates: List[Update]
    handle_reads: List[HandleRead]
    handle_writes: List[int]
    changes: List[int]


class Layout(NamedTuple):
    reads: List[Tuple[int, List[Tuple[str, int, List[Tuple[int, int]]]]]]  # item, outputs: (kind, number, pieces)
    weight_gradients: List[int]
    sums: List[Tuple[int, List[int]]]
    in_place: List[int]
    plans: List[Tuple[int, List[int]]]
    updates: List[Tuple[int, List[int]]]
    order: List[Tuple[int, int]]
    first: List[int]
    turn: Tuple[int, List[int], List[int]]
    conflict: Tuple[int, int]


class Order:
    """Partial order of items: edges between sets of merged items."""

    def __init__(self, step: Step) -> None:
        self.edges = set(step.order)
        self.op_of = list(range(len(step.ops)))

    def add(self, first: int, item: int) -> None:
        self.edges.add((first, item))

    def merge(self, items: List[int]) -> None:
        of = {self.op_of[item] for item in items}
        self.op_of = [self.op_of[items[0]] if op in of else op for op in self.op_of]

    def after(self, first: int) -> Set[int]:
        """Return the ops that come after an op."""
        found: Set[int] = set()
        left = [self.op_of[first]]
        while left:
            op = left.pop()
            more = {self.op_of[b] for a, b in self.edges if self.op_of[a] == op} - {op} - found
            found |= more
            left += more
        return found

    def is_after(self, item: int, first: Iterable[int]) -> bool:
        return any(self.op_of[item] in self.after(one) for one in first)

    def are_apart(self, items: List[int]) -> bool:
        return not any(self.is_after(item, items) for item in items)
