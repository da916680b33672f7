"""Scenarios of the model of rows on disk: which ones must hold, and which one shows each flaw."""

from typing import Dict

from .disk_state import DROP, LOAD, RESET, Scenario

_THREE = ((1,), (2,), (0,))  # three keys, whose rows start on the device, at home and on disk: all three move
_DROP, _RESET, _LOAD = (DROP, (2,)), (RESET, (0, 1, 2)), (LOAD, (0, 1, 2))
_NEW_AGAIN = Scenario(((1,), (0,)), "dh", saves=1, cuts=((DROP, (1,)),), homes=3)
_ASKED = Scenario((), "hsss", disk=3, asks=2, evals=((1, 2, 3),), disk_kills=1)
_LOADED = Scenario((), "---", device=0, homes=1, disk=3, asks=1, cuts=((LOAD, (0, 1, 2)),), disk_kills=1)
_TRAINED_AFTER_LOAD = Scenario(((0,), (1,)), "--", device=0, homes=1, asks=1, cuts=((LOAD, (0, 1)),), interrupts=1)
_SAVED = Scenario(((2,),), "dss", disk=3, asks=1, saves=1)
_AT_HOME = Scenario(((1,), (0,), (1,)), "hs", device=0, homes=1)

SHORT: Dict[str, Scenario] = {
    "three rows, two home rows, kills of both workers": Scenario(_THREE, "dhs", kills=1, disk_kills=1),
    "table worker killed twice": Scenario(_THREE, "dhs", kills=2),
    "a batch is dropped": Scenario(_THREE, "dhs", drops=1),
    "a claim is put aside, a batch is dropped, kill": Scenario(((2,), (1,)), "dhs", drops=1, asides=1, kills=1),
    "rows are used at home, kills of both workers": _AT_HOME._replace(kills=1, disk_kills=1),
    "an evaluation, kill": Scenario(((2,),), "dhs", evals=((1,), (2,)), kills=1),
    "an evaluation is killed": Scenario(((2,),), "dhs", evals=((1,), (2,)), reader_kills=1),
    "a save beside training": Scenario(_THREE[:2], "dhs", saves=1),
    "a save, rows are used at home": _AT_HOME._replace(saves=1),
    "a key is dropped": Scenario(_THREE, "dhs", cuts=(_DROP,)),
    "a load": Scenario(((2,),), "dhs", cuts=(_LOAD,)),
    "a save, and a key is dropped": Scenario(((2,),), "dhs", saves=1, cuts=(_DROP,)),
    "the disk refuses writes, and loses one": Scenario(_THREE, "dhs", fails=1, lost=1),
    "a step waits for its plan with the lease": Scenario(_THREE, "dhs", turn=True, evals=((2,),)),
    "new keys": Scenario(((0,), (1,), (2,), (0,)), "---", drops=1),
    "batches of two keys": Scenario(((0, 1), (2, 3)), "ddss", device=2, homes=4, disk=4),
    "unpinned frames use what pinned ones drive out, kill": Scenario(
        ((2,), (1,), (2,)), "dhs", window=3, ahead=0, kills=1),
    "an evaluation asks for rows, is interrupted, kill of the disk worker": _ASKED._replace(
        evals=((1, 2, 3), (2,)), interrupts=1),
    "a load asks for two rows at a time, kill of the disk worker": _LOADED._replace(begin="----", disk=4, asks=2),
    "a load is interrupted, and another one": _LOADED._replace(cuts=2 * _LOADED.cuts, interrupts=1),
    "a load is interrupted, and a table is trained": _TRAINED_AFTER_LOAD,
    "a load is interrupted, and another one, the disk loses a write": Scenario(
        (), "--", device=0, homes=1, asks=1, cuts=2 * _TRAINED_AFTER_LOAD.cuts, interrupts=1, lost=1),
    "a save asks for rows beside training": _SAVED,
}

LONG: Dict[str, Scenario] = {
    "a batch is dropped, kills of both workers": Scenario(_THREE, "dhs", drops=1, kills=1, disk_kills=1),
    "three home rows, three disk slots, kills of both workers": Scenario(
        ((2,),), "dhs", homes=3, disk=3, kills=1, disk_kills=1),
    "a window of three, two plans, a batch is dropped": Scenario(
        ((2,), (0,), (2,)), "dhs", homes=3, disk=3, window=3, plans=2, drops=1),
    "two evaluations, kills of all": Scenario(
        ((1,), (2,)), "dhs", evals=((1,), (2,)), kills=1, disk_kills=1, reader_kills=1),
    "a save beside training, kill": Scenario(_THREE, "dhs", saves=1, kills=1),
    "a save, rows are used at home, three keys": Scenario(_THREE[:2], "hhs", device=0, disk=3, saves=1),
    "rows are used at home, three keys, kills of both workers": Scenario(
        _THREE[:2], "hhs", device=0, disk=3, kills=1, disk_kills=1),
    "a save and an evaluation": Scenario(((2,), (1,)), "dhs", saves=1, evals=((1,),)),
    "a key is dropped, kills of both workers": Scenario(_THREE, "dhs", cuts=(_DROP,), kills=1, disk_kills=1),
    "all is dropped, kills of both workers": Scenario(_THREE, "dhs", cuts=(_RESET,), kills=1, disk_kills=1),
    "a load, kills of both workers": Scenario(((2,), (1,)), "dhs", cuts=(_LOAD,), kills=1, disk_kills=1),
    "a save, a key is dropped, kill": Scenario(((2,), (1,)), "dhs", saves=1, cuts=(_DROP,), kills=1),
    "a save, all is dropped": Scenario(((2,),), "dhs", saves=1, cuts=(_RESET,)),
    "a save, a load": Scenario(((2,),), "dhs", saves=1, cuts=(_LOAD,)),
    "a save, a key that is dropped and new": _NEW_AGAIN,
    "the disk refuses writes and loses one, kills of both workers": Scenario(
        _THREE, "dhs", fails=1, lost=1, kills=1, disk_kills=1),
    "an evaluation asks for a row beside training, is interrupted, kill of the disk worker": Scenario(
        ((2,),), "dhs", asks=1, evals=((2,), (2,)), disk_kills=1, interrupts=1),
    "a save asks for rows beside training, is interrupted, kill of the disk worker": _SAVED._replace(
        disk_kills=1, interrupts=1),
    "a load is interrupted, and a save, kill of the disk worker": _LOADED._replace(asks=2, saves=1, interrupts=1),
    "a load is interrupted, and a table is trained, kills of both workers": _TRAINED_AFTER_LOAD._replace(
        batches=((1,),), kills=1, disk_kills=1),
    "batches of two keys, kill": Scenario(((0, 1), (2, 3), (0, 2)), "ddss", device=2, homes=4, disk=4, kills=1),
}

#: flaw -> description
FLAWS: Dict[str, str] = {
    # the disk worker
    "lands_after_reap": "a write, or a copy of a row, of a reaped disk worker lands under its successor",
    "begins_before_reap": "a disk worker begins before the last one is reaped",
    "two_writers_of_a_block": "two operations have one block at a time",
    "done_before_written": "a request is DONE before the write is in full",
    # requests of readers
    "taken_again": "a disk worker takes requests that it has taken over again when it sees the reader's counter",
    "taken_not_repeated": "a new disk worker does not repeat a reader's requests that the last one had taken",
    "raised_before_asked": "a reader raises its counter before its requests are ASKED",
    "counter_seen_late": "the disk worker reads the counter of a reader when it has looked at the requests",
    "asked_before_filled": "a reader's request is ASKED before the row to be written is in the buffer",
    "waits_for_the_first": "a reader uses its buffer again when the first request of a batch is done",
    "next_user_does_not_wait": "a reader begins although requests of an interrupted one are not done",
    "epoch_cleared_when_asked": "a save clears its epoch when it has asked for a row, not when it has the row",
    "load_taken_over_early": "the disk slots of a load that was given up are free while its rows are being written",
    "failed_load_keeps_generation": "a load writes rows with the generations of a load that was given up",
    # spills
    "freed_before_write": "a home row is given away when its row is to be written, not when the entry says where it is",
    "entry_before_write": "the entry says where the row is before it is written",
    "two_stores": "location and generation are two stores",
    "generation_kept": "a row is written with the generation that it had",
    "spills_window": "a row that a pinned frame needs is spilled",
    "pin_does_not_cancel": "a spill counts although a frame with its key was pinned while it was written",
    "cancel_by_window": "a spill counts when it is DONE and no pinned frame has its key, whatever was in between",
    "plans_unpinned": "a plan is made of a frame that is not pinned",
    "untouch_keeps_pins": "frames that are touched again after a cut are pinned at once",
    "cancel_is_private": "only the table worker's private memory knows that a spill is not wanted any more",
    "cancel_marks_request": "a spill is cancelled by a mark in its request, and the generation is not raised",
    "failed_keeps_generation": "a write that failed, and may be on disk, does not raise the generation",
    "cancelled_forgotten": "the disk slot of a spill that is cancelled is not given back",
    "pin_ignores_room": "frames are pinned although their rows need more home rows than there are",
    "spills_too_late": "rows are spilled only when no home row is free, not while there are too few",
    "disk_smaller_than_rows": "there are fewer disk slots than rows",
    "home_rows_too_few": "there are fewer home rows than device slots and keys of a batch together",
    # fetches
    "plan_before_arrival": "a plan is made before the rows that it loads have arrived",
    "slot_freed_at_arrival": "the disk slot of a row is freed when it is fetched, not when its step is retired",
    "freed_before_store": "the disk slot of a trained row is freed before its entry names the home row",
    "retire_keeps_slot": "an entry names the disk slot although a step has changed the row",
    "empties_asked": "a request of which nothing is wanted any more is emptied before the disk worker is done with it",
    "copy_given_up_early": "the home row of a row that has arrived is given up while a pinned frame needs it",
    "freed_before_empty": "a home row is used again while the disk worker may read it for a spill of a dropped key",
    # restarts
    "restart_forgets_quarantine": "a new table worker takes what has no owner as free, without quarantine",
    "restart_takes_touched_as_pinned": "a new table worker takes all touched frames as pinned",
    "restart_leaves_stored": "a new table worker does not empty at once what the last one had stored",
    "restart_frees_assigned": "a new table worker frees the home row of a fetch whose entry has it already",
    # readers
    "home_row_skips_quarantine": "a home row is used again while a reader of before may read it",
    "disk_slot_skips_quarantine": "a disk slot is used again while a reader of before may read it",
    "reader_without_epoch": "an evaluation announces no epoch",
    "announces_late": "an evaluation announces its epoch when it knows already where rows are",
    "epoch_before_lease": "an evaluation announces its epoch and then waits for the lease",
    "epoch_of_dead_stays": "the epoch of a dead reader is never cleared",
    "epoch_cleared_before_reap": "the supervisor clears a reader's epoch before it is reaped",
    "save_without_epoch": "a save announces no epoch",
    "save_reads_where_it_was": "a save reads rows where they were when it began",
    "log_by_home_row": "images of a save are kept by home row, not by entry",
    # cuts
    "cut_during_save": "a table is loaded while a save still reads rows",
    "drops_without_log": "where the row of a dropped key lies is not logged for a save",
    "drops_then_logs": "it is logged when the entry is changed already",
    "logged_row_skips_quarantine": "what is logged for a save is in quarantine for other readers alone",
    "log_seen_early": "a save looks at the log before it looks at the entry",
    "new_row_is_kept": "a step keeps the row of a key that was dropped and is new, for a save of before",
    "granted_with_requests": "a table is granted to the trainer while requests are in flight",
    "failed_is_an_error": "a fetch that fails is an error although nothing is wanted of it any more",
    "cut_resets_generation": "a dropped key's entry begins again with generation 0",
}

_DROPS = SHORT["a save, and a key is dropped"]
_SMALL_DISK = Scenario(_THREE[:2], "hhs", device=0, disk=3)
_EVALUATES = Scenario(((2,),), "dhs", evals=((1,),), kills=1)
_SAVES, _KILLED_READER = SHORT["a save beside training"], SHORT["an evaluation is killed"]

#: scenario that shows each flaw; the default is the first scenario
FLAWED: Dict[str, Scenario] = {
    "two_writers_of_a_block": Scenario(((0,),), "dhh", homes=3),
    "taken_again": _LOADED,
    "taken_not_repeated": _ASKED,
    "raised_before_asked": _ASKED,
    "counter_seen_late": _ASKED,
    "asked_before_filled": _LOADED,
    "waits_for_the_first": _ASKED,
    "next_user_does_not_wait": SHORT["an evaluation asks for rows, is interrupted, kill of the disk worker"],
    "epoch_cleared_when_asked": _SAVED,
    "load_taken_over_early": SHORT["a load is interrupted, and a table is trained"],
    "failed_load_keeps_generation": SHORT["a load is interrupted, and another one, the disk loses a write"],
    "generation_kept": Scenario(((1,), (0,)), "ds", disk=1, lost=1),
    "cancel_marks_request": Scenario(((1,), (0,)), "dh", disk=1, lost=1),
    "failed_keeps_generation": Scenario(((1,), (0,)), "dh", disk=1, fails=1, lost=1),
    "spills_too_late": Scenario(((1, 2),), "h--", device=0, disk=3),
    "disk_smaller_than_rows": _SMALL_DISK,
    "home_rows_too_few": SHORT["batches of two keys"],
    "untouch_keeps_pins": Scenario(((1,), (1,)), "hs", device=0, cuts=((RESET, (0, 1)),)),
    "empties_asked": SHORT["a batch is dropped"],
    "restart_forgets_quarantine": _EVALUATES,
    "restart_leaves_stored": Scenario(((1,),), "dh", homes=3, disk=1, kills=1),
    "home_row_skips_quarantine": _EVALUATES,
    "disk_slot_skips_quarantine": SHORT["a save beside training"],
    "reader_without_epoch": _EVALUATES,
    "announces_late": _EVALUATES,
    "epoch_before_lease": SHORT["a step waits for its plan with the lease"],
    "epoch_of_dead_stays": _KILLED_READER,
    "epoch_cleared_before_reap": _KILLED_READER,
    "save_without_epoch": _SAVES,
    "save_reads_where_it_was": _SAVES,
    "log_by_home_row": Scenario(_THREE, "dhs", saves=1),
    "cut_during_save": Scenario(((2,),), "dhs", saves=1, cuts=(_LOAD,)),
    "drops_without_log": _DROPS,
    "drops_then_logs": _DROPS,
    "logged_row_skips_quarantine": _DROPS,
    "log_seen_early": _DROPS,
    "new_row_is_kept": _NEW_AGAIN,
    "cut_resets_generation": Scenario(((1,), (0,), (1,)), "ds", homes=3, disk=1, cuts=((DROP, (1,)),)),
    "failed_is_an_error": Scenario(((2,), (1,)), "dhs", cuts=(_DROP,)),
    "freed_before_empty": Scenario(((2,),), "dhs", cuts=((DROP, (1,)),)),
    "granted_with_requests": SHORT["a load"],
}


def planted(flaw: str) -> Scenario:
    """Return the scenario of a flaw with the flaw."""
    sc = usual(flaw)._replace(flaws=frozenset((flaw,)))
    if flaw == "disk_smaller_than_rows":
        return sc._replace(disk=sc.disk - 1)
    return sc._replace(homes=sc.homes - 1) if flaw == "home_rows_too_few" else sc


def usual(flaw: str) -> Scenario:
    """Return the scenario of a flaw without the flaw."""
    return FLAWED.get(flaw, next(iter(SHORT.values())))
