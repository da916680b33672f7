"""Errors that can be planted in the model, by name.

A flaw omits a rule of the protocol, or applies a plausible but wrong interpretation of it.  ``scenarios.FLAWED`` has
the scenario that shows each flaw.
"""

from typing import Dict

FLAWS: Dict[str, str] = {
    # frames
    "reuse_when_done": "a frame is given to the next batch when every table is DONE, before RETIRED",
    "reuse_dead": "a frame that was not trained is given away at once, without the tables' RETIRED",
    "reuse_open": "a retired frame is given away although its ticket is still open",
    "mask_by_ticket": "window masks use the ticket's number, which has gaps, instead of the frame's",
    # plans
    "publish_then_fill": "PLANNED is stored before the record is written",
    "ignore_base": "a claim does not look at what the plan stands upon",
    "base_looked_up_again": "a plan's base is read at its end, when a ticket it stands upon may have been closed",
    "reuse_entry": "an entry number is reused as soon as it carries no trained state",
    "finished_after_done": "the count-only path stores DONE first and `finished` afterwards",
    "trained_before_cas": "the trainer marks the frame TRAINED before its CAS to CLAIMED went through",
    "revoke_by_store": "a revoke looks at the word and then stores TOUCHED, instead of one CAS",
    # claims of several ranks
    "aside_after_mark": "a frame is marked TRAINED with its claim, which may still be put aside",
    "aside_after_finished": "`finished` is stored with a claim, which may still be put aside",
    "aside_revokes": "a step that puts its claim aside stores TOUCHED, and plans upon it stand",
    "aside_keeps_answer": "an evaluation that was put aside reads the rows where they were before",
    "claimed_is_trained": "a worker assigns the record of a claimed frame, which may still be put aside",
    # retiring
    "retire_adds": "retire adds to the counts instead of assigning absolute values",
    "retired_then_assign": "RETIRED is stored before the record is assigned",
    # tickets a table did not claim
    "skip_unfetched": "a trained ticket that the table did not claim is skipped, not counted",
    "leave_unfetched": "a trained ticket that the table did not claim is never finished",
    "count_in_place": "a count-only ticket is added to the truth without a record",
    "skip_then_revoke": "a closed ticket is finished first, plans upon it are revoked afterwards",
    "revoke_everything": "a closed ticket revokes every plan, also those that do not stand upon it",
    # lease, cuts, readers
    "ignore_lease": "claims, cuts and readers do not look at the lease",
    "lease_per_table": "a lease per table instead of one for all",
    "end_before_close": "a step may give its lease back before its ticket is closed",
    "cut_keeps_plans": "a cut does not revoke the plans that stand",
    "cut_waits_for_done_only": "a cut waits for DONE tickets, not for closed ones that must be counted",
    "cut_request_read_late": "a worker looks whether a cut may be applied first, and whether one is asked for then",
    "cut_without_lease": "the thread that asks for a cut does not hold the lease",
    "reset_keeps_touch": "a table reset leaves TOUCHED words although entry numbers change hands",
    "load_grants_early": "a table is granted to the trainer before it is emptied",
    "load_keeps_touch": "a load leaves TOUCHED words although entry numbers change hands",
    "load_touches": "the worker touches frames of a table while the trainer fills it",
    "load_empties_again": "a worker that takes over empties entries that the trainer may be writing",
    "load_counts_again": "a worker that takes over stores anew how many entries are filled in, after the grant",
    "load_forgets_filled": "a worker that takes over does not look whether the table was filled already",
    "load_keyed_early": "the trainer says that the entries are written before they are",
    "load_keeps_index": "of a fill that failed the index is kept that was derived while it went well",
    "load_filled_early": "the trainer says that the table is filled before its rows are written",
    "load_keeps_rest": "entries that a failed fill had written stay where new keys will be named",
    "read_plans": "a reader looks at the planned state",
    # key workers
    "clear_before_reap": "the supervisor clears a killed key worker's claim before it is reaped",
    "clear_finished": "the supervisor also clears claims of frames that are deduplicated and may change hands",
    "open_before_publish": "the pump frees the claim word of a position before its frame is published",
    "dedup_every_part": "a key worker that takes over dedups every part, also those that went on",
    "skip_submitted": "a table worker acknowledges a dead frame that no key worker has given back",
    # evaluation ring
    "reuse_unacknowledged": "a closed evaluation frame is reused without the tables' RETIRED",
    "answer_at_once": "an evaluation is answered without waiting as a reader does",
    "copy_asks": "an evaluation of a checkpoint asks the table worker as others do, and does not wait for its answer",
    "claim_before_lookup": "a step claims when it knows where the rows of its evaluation are, before it has read them",
    "evaluation_shares": "a step that evaluates and trains reads with a share, which it gives up before it claims",
    "answer_plans": "an evaluation is answered from the planned state",
}
