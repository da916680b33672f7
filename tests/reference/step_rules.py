"""Expected decisions of the rules of ``tfops/src/step``: the layout of a step, in plain Python with sets."""
from typing import Any, Dict, Iterable, List, Optional, Set, Tuple

from tests.reference.step import (
    BAG,
    CUT_BEGIN,
    CUT_SIZE,
    JOIN,
    ROWS_OF_SUM,
    SUM_GRADIENT,
    Feature,
    Join,
    Layout,
    Lookup,
    Order,
    Piece,
    Step,
    Sum,
    SumFeature,
    Use,
)


def decide(step: Step) -> Layout:
    """Return the layout of a step."""
    order = Order(step)
    reads, weight_gradients, sums, in_place = _Reads(step, order).decide()
    plans, updates = _groups(step, order)
    return Layout(reads, weight_gradients, sums, sorted(in_place), plans, updates,
                  *_Ordering(step, order, reads, weight_gradients, sums).decide())


class _Reads:
    def __init__(self, step: Step, order: Order) -> None:
        self.step = step
        self.order = order
        self.combined: Set[int] = set()  # bags that read tables
        self.read: Set[int] = set()  # features that bags or joins read
        self.joined: Set[int] = set()  # bags
        self.in_place: Set[int] = set()
        self.reads: List[Any] = []
        self.sums: List[Any] = []

    def decide(self) -> Any:
        step = self.step
        for number, feature in enumerate(step.features):
            self._combine(number, feature)
        for number, join in enumerate(step.joins):
            if any(piece.columns < 0 for piece in join.pieces) or not any(map(self._is_read, join.pieces)):
                continue
            self._sum_in_place(join)
            self._join(number, join)
        self._read_rest()
        single = sorted(self.combined - self.joined)
        self.reads += [(step.bags[bag].item, [("bag", bag, [(-1, bag)])]) for bag in single
                       if not step.bags[bag].is_gradient]
        self.sums += [(each.item, [number]) for number, each in enumerate(step.sums)
                      if each.has_bags and number not in self.in_place]
        self.reads = self._together(self.reads, lambda read: any(bag >= 0 for _, bag in read[1][0][2]), self._may_merge)
        self.sums = self._together(self.sums, lambda each: step.sums[each[1][0]].has_bags, lambda layer: True)
        return self.reads, [bag for bag in single if step.bags[bag].is_gradient], self.sums, self.in_place

    def _lookup(self, feature: int) -> Lookup:
        return self.step.lookups[self.step.features[feature].lookup]

    def _feature(self, piece: Tuple[int, int]) -> int:
        """Return the feature of a piece (feature, bag), or -1."""
        return self.step.bags[piece[1]].feature if piece[1] >= 0 else piece[0]

    def _may_read_at(self, lookups: List[Lookup], readers: List[int]) -> bool:
        evaluates = [lookup.table >= 0 for lookup in lookups]
        if any(evaluates):
            return all(evaluates) and not self.step.changes
        return not any(self.order.is_after(reader, lookup.updates) for reader in readers for lookup in lookups)

    def _combine(self, number: int, feature: Feature) -> None:
        bags = [bag for bag, each in enumerate(self.step.bags) if each.feature == number]
        if not bags or any(by not in (BAG, ROWS_OF_SUM) for by, _ in feature.uses):
            return
        lookup = self._lookup(number)
        if lookup.is_copy or all(self._may_read_at([lookup], [self.step.bags[bag].item]) for bag in bags):
            self.combined |= set(bags)
            self.read.add(number)

    def _is_read(self, piece: Piece) -> bool:
        plain = piece.feature >= 0 and piece.feature not in self.read
        return plain or piece.bag in self.combined - self.joined

    def _sum_in_place(self, join: Join) -> None:
        groups: Dict[Tuple[int, bool], List[int]] = {}
        for number, each in enumerate(self.step.sums):
            whole = each.features[0].whole
            if number not in self.in_place and whole >= 0 and all(
                    feature.whole == whole and self._has_piece(join, each, feature) for feature in each.features):
                groups.setdefault((whole, each.has_bags), []).append(number)
        for _, group in sorted(groups.items()):
            items = [self.step.sums[number].item for number in group]
            if self._are_alike(items) and self.order.are_apart(items):
                self.order.merge(items)
                self.sums.append((items[0], group))
                self.in_place |= set(group)

    def _has_piece(self, join: Join, of: Sum, feature: SumFeature) -> bool:
        for piece in filter(self._is_read, join.pieces):
            number = self._feature((piece.feature, piece.bag))
            same = self._lookup(number).slots == of.slots and self.step.features[number].restore == feature.restore
            if same and (piece.bag >= 0) == of.has_bags:
                return piece.columns == feature.columns
        return False

    def _are_alike(self, items: List[int]) -> bool:
        return len({self.step.ops[item].device for item in items}) == 1

    def _ends(self, use: Use, join: Optional[int]) -> bool:
        by, number = use
        if by in (CUT_BEGIN, CUT_SIZE):
            cut = self.step.cuts[number]
            is_cut_out = bool(cut.uses) and all(by == SUM_GRADIENT and of in self.in_place for by, of in cut.uses)
            if by == CUT_SIZE:
                return is_cut_out
            wholes = {self.step.sums[each].features[0].whole for each in self.in_place}
            return cut.whole in wholes and (cut.has_known_place or is_cut_out)
        return (by == ROWS_OF_SUM or (by == JOIN and number == join)
                or (by == SUM_GRADIENT and number in self.in_place))

    def _all_end(self, piece: Piece, join: int) -> bool:
        if piece.bag >= 0:
            return all(self._ends(use, join) for use in self.step.bags[piece.bag].uses)
        lookup = self.step.features[piece.feature].lookup
        return all(self._ends(use, join) for number, feature in enumerate(self.step.features)
                   if feature.lookup == lookup and number not in self.read for use in feature.uses)

    def _join(self, number: int, join: Join) -> None:
        pieces = [(piece.feature, piece.bag) if self._is_read(piece) and self._all_end(piece, number) else (-1, -1)
                  for piece in join.pieces]
        has_ids = any(feature >= 0 for feature, _ in pieces)
        if has_ids:
            pieces = [(feature, -1) for feature, _ in pieces]
        taken = [piece for piece in pieces if self._feature(piece) >= 0]
        lookups = [self._lookup(self._feature(piece)) for piece in taken]
        items = [self.step.bags[bag].item if bag >= 0 else self._lookup(feature).item for feature, bag in taken]
        kinds = {lookup.is_copy for lookup in lookups}
        if not taken or not self._are_alike(items) or (has_ids and len(kinds) > 1):
            return
        if self._may_read_at(lookups, [join.item]):
            self.read |= {feature for feature, _ in taken if feature >= 0}
            self.joined |= {bag for _, bag in taken if bag >= 0}
            self.reads.append((join.item, [("join", number, pieces)]))

    def _read_rest(self) -> None:
        with_bags = {self.step.features[bag.feature].lookup for bag in self.step.bags if bag.feature in self.read}
        for number in sorted(with_bags):
            rest = [feature for feature, each in enumerate(self.step.features)
                    if each.lookup == number and feature not in self.read
                    and not all(self._ends(use, None) for use in each.uses)]
            if rest:
                self.reads.append((self.step.lookups[number].item,
                                   [("feature", feature, [(feature, -1)]) for feature in rest]))

    def _may_merge(self, layer: List[Any]) -> bool:
        lookups = [self._lookup(self._feature(piece)) for _, outputs in layer for _, _, pieces in outputs
                   for piece in pieces if self._feature(piece) >= 0]
        return self._may_read_at(lookups, [item for item, _ in layer])

    def _together(self, all_of: List[Any], may: Any, may_merge: Any) -> List[Any]:
        ops = self.step.ops
        places: Dict[Tuple[int, int], List[int]] = {}
        for place, (item, _) in enumerate(all_of):
            if ops[item].branch >= 0 and may(all_of[place]):
                places.setdefault((ops[item].device, ops[item].branch), []).append(place)
        found = dict(enumerate(all_of))
        for _, left in sorted(places.items()):
            left = sorted(left, key=lambda place: ops[all_of[place][0]].name)
            while len(left) > 1:
                items = [all_of[place][0] for place in left]
                layer = [place for place, item in zip(left, items) if not self.order.is_after(item, items)]
                left = [place for place in left if place not in layer]
                if len(layer) > 1 and may_merge([found[place] for place in layer]):
                    self.order.merge([all_of[place][0] for place in layer])
                    found[layer[0]] = (found[layer[0]][0], [each for place in layer for each in found[place][1]])
                    for place in layer[1:]:
                        del found[place]
        return [found[place] for place in sorted(found)]


def _groups(step: Step, order: Order) -> Any:
    evaluates = any(not plan.trains for plan in step.plans)
    plans = [(plan.item, (plan.ticket, plan.stream)) for plan in step.plans]
    merged = [_merged(step, order, [(number, *plans[number]) for number, plan in enumerate(step.plans)
                                    if plan.may_merge and not evaluates])]
    merged.append(_merged(step, order, [(number, update.item, update.formula) for number, update
                                        in enumerate(step.updates) if update.formula]))
    return merged


def _merged(step: Step, order: Order, members: List[Any]) -> List[Tuple[int, List[int]]]:
    groups: Dict[Any, List[Tuple[int, int]]] = {}
    for number, item, what in members:
        op = step.ops[item]
        if op.branch >= 0:
            waits = tuple(sorted(order.op_of[wait] for wait in op.waits))
            groups.setdefault((op.device, op.branch, waits, _text(what)), []).append((number, item))
    found = []
    for _, group in sorted(groups.items()):
        items = [item for _, item in group]
        if len(group) > 1 and order.are_apart(items):
            order.merge(items)
            found.append((items[0], [number for number, _ in group]))
    return found


def _text(what: Any) -> str:
    return what if isinstance(what, str) else "{} of {}".format(*what)


class _Ordering:
    def __init__(self, step: Step, order: Order, reads: Any, weight_gradients: List[int], sums: Any) -> None:
        self.step = step
        self.order = order
        self.edges: List[Tuple[int, int]] = []
        self.readers: List[Tuple[int, Set[int], List[int]]] = []
        self._find_readers(reads, weight_gradients, sums)

    def decide(self) -> Any:
        nothing: Any = ([], [], (-1, [], []), (-1, -1))
        if not self.step.changes or not (self.readers or self.step.handle_reads):
            return nothing
        found = nothing
        evaluations = [reader for reader in self.readers if reader[2]]
        if evaluations:
            found = self._evaluations(evaluations)
        for item, updates, _ in self.readers:
            self._read_first(item, updates)
        for read in self.step.handle_reads:
            self._read_first(read.item, read.writes)
        return (self.edges, *found[1:])

    def _find_readers(self, reads: Any, weight_gradients: List[int], sums: Any) -> None:
        step = self.step
        replaced = set()
        for item, outputs in [*reads, *((step.bags[bag].item, [("", 0, [(-1, bag)])]) for bag in weight_gradients)]:
            features = [step.bags[bag].feature if bag >= 0 else feature
                        for _, _, pieces in outputs for feature, bag in pieces]
            lookups = [step.features[feature].lookup for feature in features if feature >= 0]
            replaced |= set(lookups)
            self._add(item, [step.lookups[lookup] for lookup in lookups if not step.lookups[lookup].is_copy])
        for number, lookup in enumerate(step.lookups):
            if number not in replaced and not lookup.is_copy:
                self._add(lookup.item, [lookup])
        for item, members in sums:
            self._add(item, [step.sums[member] for member in members])

    def _add(self, item: int, of: List[Any]) -> None:
        plans = list(dict.fromkeys(plan for each in of for plan in each.evaluations))
        self.readers.append((item, list(dict.fromkeys(update for each in of for update in each.updates)), plans))

    def _before(self, first: int, item: int) -> None:
        self.order.add(first, item)
        edge = self.order.op_of[first], self.order.op_of[item]
        if edge not in self.edges:
            self.edges.append(edge)

    def _read_first(self, reader: int, writers: Iterable[int]) -> None:
        for writer in writers:
            same_frame = self.step.ops[reader].frame == self.step.ops[writer].frame
            if same_frame and not self.order.is_after(reader, [writer]):
                self._before(reader, writer)

    def _evaluations(self, evaluations: Any) -> Any:
        step, order = self.step, self.order
        first: List[int] = []
        early: List[int] = []
        if any(order.is_after(item, step.changes) for item, _, _ in evaluations):
            conflict = self._plan_afterwards(evaluations)
            if conflict:
                return None, [], (-1, [], []), conflict
            late = [item for item, _, _ in evaluations if order.is_after(item, step.changes)]
            early = [plan for item, _, plans in evaluations if item not in late for plan in plans]
            for item, _, _ in evaluations:
                for change in step.changes:
                    if not order.is_after(item, [change]):
                        self._before(item, change)
            for item in late:
                self._read_first(item, step.handle_writes)
        else:
            for item, _, plans in evaluations:
                first.append(order.op_of[item])
                early += plans
                for change in step.changes:
                    order.add(item, change)
        return None, first, self._turn(list(dict.fromkeys(early))), (-1, -1)

    def _plan_afterwards(self, evaluations: Any) -> Optional[Tuple[int, int]]:
        again = True
        while again:
            again = False
            for change in self.step.changes:
                for item, _, plans in evaluations:
                    for plan in plans if self.order.is_after(item, [change]) else []:
                        if self.order.is_after(plan, [change]):
                            continue
                        if self.order.is_after(change, [plan]):
                            return item, change
                        self._before(change, plan)
                        again = True
        return None

    def _turn(self, early: List[int]) -> Tuple[int, List[int], List[int]]:
        step = self.step
        numbers = {plan.item: number for number, plan in enumerate(step.plans)}
        turn = next((numbers[change] for change in step.changes if change in numbers), None)
        if turn is None:
            return -1, [], []
        plans = [plan for plan in early if not self.order.is_after(step.plans[turn].ticket_source, [plan])]
        if not plans:
            return -1, [], []
        inputs = [each for plan in step.plans if plan.item in plans for each in plan.inputs]
        return turn, list(dict.fromkeys(each for each in inputs if not self.order.is_after(each, plans))), plans
