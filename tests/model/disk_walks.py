"""Random walks through the model of rows on disk, in scenarios that are too large to be explored.

They find errors that small scenarios cannot show, for example a batch that needs two home rows while one is free.  They
are no proof.
"""

import random

from .disk_rows import DiskRows
from .disk_state import DROP, LOAD, RESET, Scenario
from .explore import Violation

_MOST = 5000  #: maximum number of moves; walks that end take at most some hundreds


def any_scenario(chance: random.Random) -> Scenario:
    """Return a random scenario with three to five keys, one to six batches and all kinds of events."""
    keys, device = chance.choice((3, 4, 5)), chance.choice((0, 1, 1, 2))
    width = 1 if device == 1 else chance.choice((1, 2))
    homes = device + width + chance.choice((0, 0, 1, 2))
    begin = ""
    for _ in range(keys):
        where = chance.choice("dhs-")
        at_home = begin.count("d") + begin.count("h")  # a row on the device also has a home row
        full = at_home == homes or (where == "d" and begin.count("d") == device)
        begin += "s" if where in "dh" and full else where
    cuts = ((DROP, (chance.randrange(keys),)), (RESET, tuple(range(keys))), (LOAD, tuple(range(keys))))
    evals = tuple(tuple(chance.sample(range(keys), chance.choice((1, 1, 2)))) for _ in range(chance.choice((0, 1, 3))))
    batches = tuple(tuple(chance.sample(range(keys), width)) for _ in range(chance.randint(1, 6)))
    return Scenario(
        batches, begin, device, homes, keys,
        block=chance.choice((1, 2, 3)), window=chance.choice((1, 2, 3)), plans=chance.choice((1, 2)),
        ahead=chance.choice((0, 1, 2)),
        threads=chance.choice((1, 2, 3)), kills=chance.choice((0, 1, 3)), disk_kills=chance.choice((0, 1, 3)),
        reader_kills=chance.choice((0, 1)), drops=chance.choice((0, 1, 2)), asides=chance.choice((0, 1)),
        evals=evals, saves=chance.choice((0, 1, 2)),
        cuts=tuple(chance.choice(cuts) for _ in range(chance.choice((0, 0, 1, 2)))), fails=chance.choice((0, 0, 1)),
        lost=chance.choice((0, 0, 0, 1)), asks=chance.choice((0, 1, 2)), interrupts=chance.choice((0, 0, 1, 2)),
        turn=chance.random() < 0.1)


def walk(sc: Scenario, chance: random.Random) -> int:
    """Run one random walk to its end and return the number of its moves.

    Raises:
        Violation: an invariant is broken, no process can continue, or the walk does not end.  The text lists all moves.
    """
    system, labels = DiskRows(sc), []
    state, events = system.start(), chance.choice((0.1, 0.5))
    try:
        while len(labels) < _MOST:
            moves = list(system.moves(state))
            must = [move for move in moves if not move.optional]
            if not must and system.may_stop(state):
                return len(labels)
            if not must:
                raise Violation("no process can go on, and this is no end")
            move = chance.choice(moves if chance.random() < events else must)
            labels.append(move.label)
            state = move.effect(*move.args)
        raise Violation("there is no end")
    except Violation as broken:
        raise Violation("%s\n%s\n=> %s" % (sc, "\n".join(labels), broken)) from broken
