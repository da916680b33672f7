"""Scenarios that must hold, and the scenario that shows each flaw.

With the two key patterns below and a single slot, both tables have misses and swaps.  ``SHORT`` runs in ``make test``,
``LONG`` in ``make test-sweeps``.
"""

import dataclasses
from typing import Dict

from .loads import AT_HOME, ON_DEVICE
from .scenario import BOTH, LOOK_AHEAD, NO_TABLE, ONLY_A, ONLY_B, Scenario

_A, _B = ((0,), (1,), (0,), (1,)), ((0,), (0,), (1,), (0,))
TWO = (_A[:2], _B[:2])  #: two tables, two tickets
THREE = (_A[:3], _B[:3])
FOUR = (_A, _B)
ONE_TABLE = (_A,)  #: one table, four tickets
FIVE = (_A + ((0,),),)
WIDE = (((0, 1), (1, 2), (0, 2)), ((0,), (0,), (0,)))

SHORT: Dict[str, Scenario] = {
    "one table, ring of two, kill": Scenario(ONE_TABLE, frames=2, kills=1, kinds=(ONLY_A,)),
    "one table, ring of three, two plans, peeks": Scenario(
        (_A[:3],), frames=3, plans=2, kills=1, kinds=(ONLY_A, NO_TABLE)
    ),
    "two tables, ring of one, kill": Scenario(TWO, frames=1, kills=1),
    "claim in three moves, kill": Scenario((_A[:3],), frames=2, plans=2, kills=1, kinds=(ONLY_A,), fine_claim=True),
    "claims put aside, failing step": Scenario(
        (_A[:3],), frames=2, plans=2, kills=1, kinds=(ONLY_A,), fails=1, asides=1
    ),
    "claims put aside, a cut of another thread": Scenario(
        (_A[:2],), frames=2, plans=2, threads=2, kinds=(ONLY_A,), asides=1, cuts=((0, "reset", 0),)
    ),
    "claims of two tables put aside": Scenario(TWO, frames=1, kills=1, kinds=(BOTH, ONLY_A), asides=1),
    "an evaluation put aside, another thread trains": Scenario(
        (_A[:2],), frames=2, threads=2, kinds=(ONLY_A,), kills=1, asides=1, evals=((0, 1),)
    ),
    "re-initialised, one table": Scenario(
        (_A[:3],), frames=2, plans=2, kinds=(ONLY_A, NO_TABLE), restarts=1, drops=(0, 1)
    ),
    "batches fetched while they are parked": Scenario(
        (_A[:3],), frames=1, threads=2, kinds=(ONLY_A, NO_TABLE), fetch_parked=True
    ),
    "more positions than frames": Scenario(
        (_A[:3],), frames=1, positions=2, kinds=(ONLY_A,), kills=1, restarts=1, drops=(1,)
    ),
    "key worker killed": Scenario(TWO, frames=1, key_workers=1, key_kills=1, kinds=(BOTH,), planning=LOOK_AHEAD),
    "two key workers": Scenario((((0,), (1,), (0,)),), frames=1, key_workers=2, key_kills=1, kinds=(ONLY_A,)),
    "evaluation ring": Scenario(
        (_A[:2],), frames=2, kinds=(ONLY_A,), kills=1, evals=((0,), (0, 1)), threads=1, fails=1
    ),
    "evaluation of a checkpoint beside training": Scenario(
        (_A[:1],), frames=1, kinds=(ONLY_A,), kills=1, evals=((0,), (0,)), copies=(1,), threads=2
    ),
    "evaluation in the run that trains": Scenario(
        (_A[:2],), frames=2, kinds=(ONLY_A,), kills=1, evals=((0, 1), (1,)), beside=(1, 2), fails=1
    ),
    "evaluation in the run that trains, another thread trains": Scenario(
        (_A[:2],), frames=2, kinds=(ONLY_A,), threads=2, evals=((0, 1),), beside=(1,)
    ),
    "cut: reset": Scenario((_A[:3],), frames=2, plans=2, kinds=(ONLY_A,), kills=1, cuts=((0, "reset", 0),)),
    "cut: evict": Scenario((_A[:3],), frames=2, plans=2, kinds=(ONLY_A,), kills=1, cuts=((0, "evict", 0),)),
    "load: a key with a row, a key that is counted": Scenario(
        (_A[:3],), frames=2, plans=2, kinds=(ONLY_A,), kills=1, fails=1, cuts=((0, AT_HOME, 0b1001),)
    ),
    "load: a row on the device, a row at home": Scenario(
        (_A[:3],), frames=2, kinds=(ONLY_A,), kills=2, cuts=((0, ON_DEVICE, 0b0011),)
    ),
    "load: nothing": Scenario((_A[:2],), frames=2, kinds=(ONLY_A,), kills=1, cuts=((0, AT_HOME, 0),)),
}

LONG: Dict[str, Scenario] = {
    "ring of one, every kind of fetch": Scenario(
        THREE, frames=1, kills=2, kinds=(BOTH, ONLY_B, ONLY_A, NO_TABLE), fails=1, planning=LOOK_AHEAD
    ),
    "ring of two": Scenario(THREE, frames=2, kills=2),
    "ring of two, look ahead, peeks": Scenario(
        THREE, frames=2, kills=1, kinds=(BOTH, ONLY_A, NO_TABLE), planning=LOOK_AHEAD
    ),
    "ring of three": Scenario(THREE, frames=3, kills=1),
    "ring of three, two plans": Scenario(THREE, frames=3, plans=2, kills=1),
    "ring of three, four tickets, look ahead": Scenario(FOUR, frames=3, planning=LOOK_AHEAD),
    "table B is never fetched": Scenario(FOUR, frames=3, kinds=(ONLY_A,)),
    "B fetched in some steps, A in others": Scenario(THREE, frames=2, kills=1, kinds=(ONLY_A, ONLY_B)),
    "re-initialised, parked tickets dropped": Scenario(FOUR, frames=2, restarts=1, drops=(0, 1)),
    "re-initialised, kill": Scenario(THREE, frames=2, kills=1, restarts=1, drops=(0, 1)),
    "failing step": Scenario(THREE, frames=2, kills=1, kinds=(BOTH,), fails=1),
    "two threads": Scenario(THREE, frames=3, threads=2),
    "two threads, a reader, kill": Scenario(TWO, frames=2, kills=1, threads=2, reads=1),
    "batches fetched while they are parked, two tables": Scenario(
        THREE, frames=1, threads=2, kinds=(BOTH, ONLY_B, NO_TABLE), fetch_parked=True, fails=1
    ),
    "admission from the second time on, a reader": Scenario(THREE, frames=2, kills=1, threshold=2, reads=1),
    "cut: threshold 2 becomes 1": Scenario(THREE, frames=2, kills=1, threshold=2, cuts=((1, "threshold", 1),)),
    "cut: a key of B is evicted": Scenario(THREE, frames=2, kills=1, cuts=((1, "evict", 0),)),
    "cut: B is reset": Scenario(THREE, frames=2, kills=1, cuts=((1, "reset", 0),)),
    "two cuts, two threads": Scenario(TWO, frames=2, threads=2, cuts=((0, "evict", 0), (1, "reset", 0))),
    "one table, four tickets, two kills, every event": Scenario(
        ONE_TABLE,
        frames=3,
        plans=2,
        kills=2,
        kinds=(ONLY_A, NO_TABLE),
        restarts=1,
        drops=(0, 1),
        reads=1,
        fails=1,
        cuts=((0, "evict", 0),),
    ),
    "one table, five tickets, two kills": Scenario(
        FIVE, frames=3, plans=2, kills=2, kinds=(ONLY_A, NO_TABLE), restarts=1, drops=(0, 1)
    ),
    "one table, four tickets, two threads, two cuts": Scenario(
        ONE_TABLE,
        frames=3,
        plans=2,
        kills=1,
        kinds=(ONLY_A,),
        threads=2,
        reads=1,
        cuts=((0, "evict", 0), (0, "reset", 0)),
    ),
    "load of B, kill, failing fill": Scenario(TWO, frames=2, kills=1, fails=1, cuts=((1, AT_HOME, 0b0011),)),
    "load of B on the device, admission, kill": Scenario(
        TWO, frames=2, kills=1, threshold=2, cuts=((1, ON_DEVICE, 0b0110),)
    ),
    "load of three keys in another order, two slots, two kills": Scenario(
        WIDE[:1], keys=3, slots=2, frames=2, plans=2, kills=2, kinds=(ONLY_A,), cuts=((0, ON_DEVICE, 0b100011),)
    ),
    "loads of both tables, two threads, a reader": Scenario(
        TWO, frames=2, threads=2, reads=1, cuts=((0, AT_HOME, 0b1001), (1, ON_DEVICE, 0b0011))
    ),
    "load, then eviction, evaluations, failing steps": Scenario(
        (_A[:2],),
        frames=2,
        kinds=(ONLY_A,),
        kills=1,
        fails=1,
        evals=((0,), (0, 1)),
        cuts=((0, AT_HOME, 0b1001), (0, "evict", 0)),
    ),
    "load, re-initialised, peeks, every event": Scenario(
        ONE_TABLE,
        frames=2,
        plans=2,
        kills=1,
        kinds=(ONLY_A, NO_TABLE),
        restarts=1,
        drops=(0, 1),
        reads=1,
        fails=1,
        cuts=((0, AT_HOME, 0b0011),),
    ),
    "claims put aside, two tables, two threads, a reader": Scenario(
        TWO, frames=1, kills=1, threads=2, reads=1, fails=1, asides=1
    ),
    "evaluations put aside, two tables, two threads, a cut": Scenario(
        TWO, frames=1, threads=2, kinds=(BOTH,), kills=1, asides=2, evals=((0, 1), (1,)), cuts=((0, "reset", 0),)
    ),
    "evaluations put aside, failing steps": Scenario(
        (_A[:2],), frames=2, threads=2, kinds=(ONLY_A,), kills=1, fails=1, asides=1, evals=((0, 1), (1,))
    ),
    "claims put aside, two tables, three tickets": Scenario(
        THREE, frames=2, kills=1, kinds=(BOTH,), fails=1, asides=1
    ),
    "claim in three moves, put aside, a cut": Scenario(
        (_A[:3],), frames=2, plans=2, kills=1, kinds=(ONLY_A, NO_TABLE), threads=2, fine_claim=True, asides=2,
        cuts=((0, "evict", 0),),
    ),
    "claim in three moves": Scenario(THREE, frames=2, kills=1, fine_claim=True),
    "claim in three moves, two threads, a cut that does not hold the lease": Scenario(
        ONE_TABLE,
        frames=3,
        plans=2,
        kills=1,
        kinds=(ONLY_A, NO_TABLE),
        threads=2,
        fine_claim=True,
        cuts=((0, "evict", 0),),
        flaws=frozenset(["cut_without_lease"]),
    ),
    "two slots, three keys, victims to choose": Scenario(WIDE, keys=3, slots=2, frames=2, kills=1),
    "more positions than frames, two tables": Scenario(FOUR, frames=1, positions=3, restarts=1, drops=(0, 1)),
    "key workers, two tables, both kinds of kill": Scenario(
        TWO, frames=2, kills=1, key_workers=1, key_kills=1, planning=LOOK_AHEAD
    ),
    "two key workers, ring of one": Scenario(
        THREE, frames=1, key_workers=2, key_kills=1, kinds=(BOTH,), planning=LOOK_AHEAD
    ),
    "two key workers, parked tickets closed": Scenario(
        (_A[:3],), frames=2, positions=3, key_workers=2, key_kills=1, kinds=(ONLY_A,), restarts=1, drops=(0, 1)
    ),
    "evaluation ring, two tables, two threads": Scenario(
        TWO, frames=1, kinds=(BOTH,), kills=1, threads=2, evals=((0,), (0, 1))
    ),
    "evaluation ring of two, failing steps, a cut": Scenario(
        (_A[:2],),
        frames=1,
        kinds=(ONLY_A,),
        kills=1,
        threads=2,
        fails=1,
        evals=((0,), (0, 1)),
        eval_frames=2,
        cuts=((0, "reset", 0),),
    ),
    "evaluation in the run that trains, two tables, two threads": Scenario(
        TWO, frames=1, kinds=(BOTH,), threads=2, evals=((0, 1),), beside=(1,)
    ),
    "evaluation in the run that trains, failing steps, a cut": Scenario(
        (_A[:2],), frames=2, kinds=(ONLY_A,), threads=2, fails=1, evals=((0,),), beside=(1,), cuts=((0, "reset", 0),)
    ),
}

_LOAD = Scenario((_A[:2],), frames=2, kinds=(ONLY_A,), cuts=((0, AT_HOME, 0b0011),))

#: flaw -> the scenario in which it must be found
FLAWED: Dict[str, Scenario] = {
    "reuse_when_done": Scenario(TWO, frames=1, kinds=(BOTH,)),
    "reuse_dead": Scenario((((0,), (0,), (1,)),), frames=1, restarts=1, kinds=(ONLY_A,)),
    "reuse_open": Scenario((_A[:2],), frames=1, kinds=(ONLY_A,)),
    "mask_by_ticket": Scenario(
        (((0,), (0,), (0,), (0,), (1,), (0,)),), frames=2, kinds=(ONLY_A, NO_TABLE), restarts=2, drops=(0, 1)
    ),
    "publish_then_fill": Scenario((_A[:2],), frames=2, kinds=(ONLY_A,)),
    "ignore_base": Scenario((_A[:3],), frames=3, plans=2, kinds=(ONLY_A, NO_TABLE)),
    "base_looked_up_again": Scenario((((0,), (0,)),), frames=2, plans=2, kinds=(ONLY_A, NO_TABLE)),
    "reuse_entry": Scenario((_A[:2],), frames=2, kinds=(ONLY_A,)),
    "finished_after_done": Scenario(TWO, frames=2, kills=1, planning=LOOK_AHEAD),
    "trained_before_cas": Scenario((_A[:2],), frames=2, kills=1, fails=1, kinds=(ONLY_A,)),
    "revoke_by_store": Scenario((_A[:2],), frames=2, kills=1, kinds=(ONLY_A,)),
    "aside_after_mark": Scenario((_A[:2],), frames=2, kinds=(ONLY_A,), fails=1, asides=1),
    "aside_after_finished": Scenario((_A[:2],), frames=2, kinds=(ONLY_A,), asides=1),
    "aside_keeps_answer": Scenario((_A[:2],), frames=2, threads=2, kinds=(ONLY_A,), asides=1, evals=((0,),)),
    "aside_revokes": Scenario((_A[:3],), frames=3, plans=2, kinds=(ONLY_A,), asides=1),
    "claimed_is_trained": Scenario((_A[:2],), frames=2, kinds=(ONLY_A,), fails=1, asides=1),
    "retire_adds": Scenario((_A[:2],), frames=2, kills=1, kinds=(ONLY_A,)),
    "retired_then_assign": Scenario((_A[:2],), frames=2, kills=1, kinds=(ONLY_A,)),
    "skip_unfetched": Scenario(TWO, frames=1),
    "leave_unfetched": Scenario(TWO, frames=1),
    "count_in_place": Scenario(TWO, frames=1, kills=1),
    "skip_then_revoke": Scenario((_A[:2], _A[:2]), frames=2, plans=2),
    "revoke_everything": Scenario((_A[:3],), frames=2, kinds=(ONLY_A, NO_TABLE)),
    "ignore_lease": Scenario((_A[:3],), frames=3, threads=2, kinds=(ONLY_A,)),
    "lease_per_table": Scenario((_A[:1], _B[:1]), frames=1, threads=2, reads=1, kinds=(BOTH,)),
    "end_before_close": Scenario(TWO, frames=2, reads=1),
    "cut_keeps_plans": Scenario((_A[:3],), frames=2, threshold=2, kinds=(ONLY_A,), cuts=((0, "threshold", 1),)),
    "cut_waits_for_done_only": Scenario(TWO, frames=1, cuts=((1, "evict", 0),)),
    "cut_request_read_late": Scenario(TWO, frames=1, cuts=((1, "evict", 0),)),
    "cut_without_lease": Scenario((_A[:3],), frames=2, threads=2, kinds=(ONLY_A,), cuts=((0, "evict", 0),), reads=1),
    "reset_keeps_touch": Scenario((_A[:3],), frames=3, kinds=(ONLY_A,), cuts=((0, "reset", 0),)),
    "load_grants_early": _LOAD,
    "load_keeps_touch": _LOAD,
    "load_touches": _LOAD,
    "load_empties_again": dataclasses.replace(_LOAD, kills=1),
    "load_counts_again": dataclasses.replace(_LOAD, kills=1),
    "load_forgets_filled": dataclasses.replace(_LOAD, kills=1),
    "load_keyed_early": _LOAD,
    "load_keeps_index": dataclasses.replace(_LOAD, fails=1),
    "load_filled_early": _LOAD,
    "load_keeps_rest": dataclasses.replace(_LOAD, fails=1),
    "read_plans": Scenario((_A[:3],), frames=2, reads=1, kinds=(ONLY_A,)),
    "clear_before_reap": Scenario((_A[:2],), frames=1, key_workers=2, key_kills=1, kinds=(ONLY_A,)),
    "clear_finished": Scenario((_A[:3],), frames=1, key_workers=2, key_kills=1, kinds=(ONLY_A,)),
    "open_before_publish": Scenario((_A[:2],), frames=1, key_workers=2, kinds=(ONLY_A,)),
    "dedup_every_part": Scenario(TWO, frames=1, key_workers=1, key_kills=1, kinds=(BOTH,)),
    "skip_submitted": Scenario((_A[:2],), frames=1, key_workers=1, kinds=(NO_TABLE,)),
    "reuse_unacknowledged": Scenario((_A[:1],), frames=1, kinds=(ONLY_A,), evals=((0,), (1,)), fails=1),
    "answer_at_once": Scenario((_A[:2],), frames=1, kinds=(ONLY_A,), evals=((0,),)),
    "copy_asks": Scenario((_A[:1],), frames=1, kinds=(ONLY_A,), evals=((0,),), copies=(1,)),
    "claim_before_lookup": Scenario((_A[:2],), frames=2, kinds=(ONLY_A,), evals=((0,),), beside=(1,)),
    "evaluation_shares": Scenario((_A[:2],), frames=2, kinds=(ONLY_A,), threads=2, evals=((0,),), beside=(1,)),
    "answer_plans": Scenario((_A[:3],), frames=2, kinds=(ONLY_A,), evals=((0, 1),)),
}


def planted(flaw: str) -> Scenario:
    """Return the scenario of a flaw with the flaw."""
    scenario = FLAWED[flaw]
    return dataclasses.replace(scenario, flaws=scenario.flaws | {flaw})
