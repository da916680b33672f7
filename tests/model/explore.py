"""Visit every state that a small concurrent system can reach.

A system defines its start state, the possible moves in a state, and whether it may stop in a state.  The search is
breadth first, so the first problem is found with a shortest path.  The search ends early if

- a move breaks an invariant (its effect raises ``Violation``), or
- a state is *stuck*: it is not final, and all its moves are optional (a kill, a failing step).  Progress must not
  depend on optional moves.

After it has visited all states, it searches for a *cycle*.  A finite graph without stuck states and cycles means that
every run reaches a final state, in any order of moves.
"""

import array
import time
from collections import deque
from typing import Any, Callable, Deque, Dict, Generic, Hashable, Iterator, List, NamedTuple, Optional, Tuple, TypeVar

State = TypeVar("State", bound=Hashable)


class Violation(Exception):
    """An invariant does not hold; the text names the invariant and shows the values."""


Tuples = TypeVar("Tuples", bound=type)


def quick(kind: Tuples) -> Tuples:
    """Give a named tuple class a faster ``_replace``.

    It takes half of the time, and models call it millions of times.
    """
    indices = {name: index for index, name in enumerate(kind._fields)}

    def _replace(self: Any, **changes: Any) -> Any:
        values = list(self)
        for name, value in changes.items():
            values[indices[name]] = value
        return tuple.__new__(kind, values)

    kind._replace = _replace
    return kind


class Move(NamedTuple):
    """An atomic step: ``effect(*args)`` returns the next state.

    ``optional`` marks moves that need not happen; progress must not depend on them.
    """

    label: str
    effect: Callable[..., Any]
    args: Tuple[Any, ...]
    optional: bool = False


class System(Generic[State]):
    """Interface of a system for ``explore``."""

    def start(self) -> State:
        """Return the start state."""
        raise NotImplementedError

    def moves(self, state: State) -> Iterator[Move]:
        """Yield every move that is possible in ``state``."""
        raise NotImplementedError

    def may_stop(self, state: State) -> bool:
        """Return True if a run may end in ``state``."""
        raise NotImplementedError


HOLDS, BROKEN, STUCK, CYCLE, TOO_LARGE = "holds", "broken", "stuck", "cycle", "too large"


class Report(NamedTuple):
    """Result of a search.

    Attributes:
        verdict: HOLDS, BROKEN (an invariant), STUCK, CYCLE or TOO_LARGE (``limit`` was reached).
        reason: text of the broken invariant, or an explanation of the verdict.
        trace: labels of a shortest path to the problem; empty if there is none.
        states, moves: number of visited states and moves.
        seconds: elapsed time.
    """

    verdict: str
    reason: str
    trace: Tuple[str, ...]
    states: int
    moves: int
    seconds: float

    def text(self) -> str:
        """Return the numbered moves of the trace and the verdict."""
        lines = ["%4d  %s" % step for step in enumerate(self.trace, 1)]
        return "\n".join(lines + ["=> %s: %s" % (self.verdict, self.reason)])


class _Seen(Generic[State]):
    """Known states, each with the first move that reached it."""

    def __init__(self, first: State) -> None:
        self.number: Dict[State, int] = {first: 0}
        self.came_from = array.array("q", [-1])
        self.label_of: List[str] = [""]
        self._labels: Dict[str, str] = {}

    def add(self, state: State, came_from: int, label: str) -> int:
        number = len(self.label_of)
        self.number[state] = number
        self.came_from.append(came_from)
        self.label_of.append(self._labels.setdefault(label, label))
        return number

    def path(self, node: int) -> List[str]:
        labels = []
        while node > 0:
            labels.append(self.label_of[node])
            node = self.came_from[node]
        return labels[::-1]


def explore(system: "System[State]", limit: int = 3000000) -> Report:
    """Search ``system`` until a problem is found, all states are visited, or more than ``limit`` states are known."""
    began = time.monotonic()
    first = system.start()
    seen = _Seen(first)
    number = seen.number
    waiting: Deque[State] = deque([first])
    # Moves of state n are targets[first_move[n]:first_move[n + 1]]; states are expanded in the order of their numbers.
    first_move, targets = array.array("q"), array.array("q")
    node = 0

    def report(verdict: str, reason: str, trace: Tuple[str, ...] = ()) -> Report:
        return Report(verdict, reason, trace, len(number), len(targets), time.monotonic() - began)

    while waiting:
        state = waiting.popleft()
        first_move.append(len(targets))
        goes_on = False
        doing: Tuple[str, ...] = ()
        try:
            for label, effect, args, optional in system.moves(state):
                goes_on = goes_on or not optional
                doing = (label,)
                after = effect(*args)
                doing = ()  # a later violation belongs to the search for the next move
                target = number.get(after)
                if target is None:
                    target = seen.add(after, node, label)
                    waiting.append(after)
                targets.append(target)
        except Violation as broken:
            return report(BROKEN, str(broken), tuple(seen.path(node)) + doing)
        if not goes_on and not system.may_stop(state):
            return report(STUCK, "no process can go on, and this is no end", tuple(seen.path(node)))
        if len(number) > limit:
            return report(TOO_LARGE, "more than %d states" % limit)
        node += 1
    first_move.append(len(targets))
    on_cycle = _state_on_a_cycle(first_move, targets)
    if on_cycle is not None:
        return report(CYCLE, "it can go round for ever, beginning here", tuple(seen.path(on_cycle)))
    return report(HOLDS, "every run ends well")


def _state_on_a_cycle(first_move: "array.array[int]", targets: "array.array[int]") -> Optional[int]:
    """Return a state that is on a cycle or reachable from one, or None.

    Repeatedly removes states that no state leads to, and returns the smallest remaining state.
    """
    count = len(first_move) - 1
    ways_in = array.array("q", bytes(8 * count))
    for target in targets:
        ways_in[target] += 1
    free = [node for node in range(count) if not ways_in[node]]
    taken = 0
    while free:
        node = free.pop()
        taken += 1
        for target in targets[first_move[node] : first_move[node + 1]]:
            ways_in[target] -= 1
            if not ways_in[target]:
                free.append(target)
    if taken == count:
        return None
    return next(node for node in range(count) if ways_in[node])
