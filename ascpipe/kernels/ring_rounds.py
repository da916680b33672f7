"""Loop of a table worker over the tables of a training ring.

The loop returns when Python code must act, and the next call continues where the loop stopped. Therefore only a little
Python code runs if batches are small. The order of loads and stores of shared memory does not depend on whether the
loop returns between them. The steps are in ``ring_steps``.
"""
from ascpipe.kernels.asks import CARRY_OUT, CONTINUE, ENDED, PROVIDE, RING, look_at_bells
from ascpipe.kernels.disk_steps import move_table_rows
from ascpipe.kernels.door import entry, inner
from ascpipe.kernels.next_action import NOTHING, PLAN, RETIRE, TOUCH
from ascpipe.kernels.ring_steps import (
    LEAVE,
    assign_frames,
    leave_frames,
    look_at_tables,
    plan_frames,
    store_words,
    touch_frames,
)
from ascpipe.layout.words import PLANNED, RETIRED, TOUCHED

# Steps of a round, in ``ROUNDS["at"]``.
LOOK = 0
ASSIGN = 1  #: assign records of finished frames to the truth
STORE_RETIRED = 2
LEAVE_WINDOW = 3
MOVE_ROWS = 4  #: move rows between memory and disk
MAKE_PLANS = 5
STORE_PLANNED = 6
FIND_ENTRIES = 7
STORE_TOUCHED = 8
FIND_RARE_ACTIONS = 9  #: find rare actions and loads, which Python code carries out
END_ROUND = 10


@inner("int64(Rounds, UniTuple(int64, 2), int64)")
def count_step(rounds, made, then):
    """Count the actions that a step has carried out. Make ``then`` the next step if no table lacks a resource.

    Args:
        rounds: ROUNDS of the worker.
        made: (number of tables that carried out the action, number of tables that lack a resource).
        then: next step.

    Returns:
        CONTINUE or PROVIDE.
    """
    done, lacking = made
    rounds["acted"] += done
    if lacking > 0:
        return PROVIDE
    rounds["at"] = then
    return CONTINUE


@inner("boolean(Turn[::1])")
def has_rare_actions(turns):
    """Return True if Python code must act for a table: an action is left, or the table is granted to the trainer."""
    found = False
    for i in range(turns.shape[0]):
        found = found or turns[i]["action"] != NOTHING or turns[i]["is_loading"] != 0
    return found


@inner("int64(Rounds)")
def end_round(rounds):
    """End a round. Return CONTINUE if one more round follows, and ENDED otherwise.

    A round without actions is the last round, even if some tables wait, because they would also wait in the next round.
    """
    rounds["at"] = LOOK
    rounds["done"] += rounds["acted"]
    rounds["left"] -= 1
    return CONTINUE if rounds["acted"] > 0 and rounds["left"] > 0 else ENDED


@inner("int64(uint8[::1], Turn[::1], Rounds, Listener[::1])")
def take_step(memory, turns, rounds, listeners):
    """Execute one step of a round, and set the next step.

    Args:
        memory: the ring.
        turns: TURN[tables].
        rounds: ROUNDS of the worker.
        listeners: LISTENER[2 or 3]: bells of the trainer, the pump and, if it exists, the disk worker.
            ``waits`` receives whether the bell must be rung.

    Returns:
        CONTINUE, RING, ENDED, PROVIDE or CARRY_OUT. After PROVIDE, the caller provides the resources that turns
        lack, and the step is repeated. After CARRY_OUT, the caller carries out the remaining actions and loads,
        and adds their number to ``acted``.
    """
    at = rounds["at"]
    if at == LOOK:
        ready, rounds["plans"] = look_at_tables(memory, turns)
        rounds["acted"] = 0
        rounds["at"] = ASSIGN if ready > 0 or listeners.shape[0] > 2 else FIND_RARE_ACTIONS
    elif at == ASSIGN:
        return count_step(rounds, assign_frames(memory, turns), STORE_RETIRED)
    elif at == STORE_RETIRED:
        rounds["at"] = LEAVE_WINDOW
        if store_words(memory, turns, RETIRE, LEAVE, RETIRED) > 0:  # SYNC retired: store
            return RING if look_at_bells(listeners[:2]) else CONTINUE
    elif at == LEAVE_WINDOW:
        leave_frames(turns, NOTHING)
        rounds["at"] = MOVE_ROWS if listeners.shape[0] > 2 else MAKE_PLANS
    elif at == MOVE_ROWS:
        made = move_table_rows(turns)
        asks = count_step(rounds, made, MAKE_PLANS)
        return RING if asks == CONTINUE and made[0] > 0 and look_at_bells(listeners[2:]) else asks
    elif at == MAKE_PLANS:
        return count_step(rounds, plan_frames(memory, turns), STORE_PLANNED)
    elif at == STORE_PLANNED:
        rounds["at"] = FIND_ENTRIES
        if store_words(memory, turns, PLAN, NOTHING, PLANNED) > 0:  # SYNC plan: store
            return RING if look_at_bells(listeners[:1]) else CONTINUE
    elif at == FIND_ENTRIES:
        return count_step(rounds, touch_frames(memory, turns), STORE_TOUCHED)
    elif at == STORE_TOUCHED:
        store_words(memory, turns, TOUCH, NOTHING, TOUCHED)
        rounds["at"] = FIND_RARE_ACTIONS
    elif at == FIND_RARE_ACTIONS:
        rounds["at"] = END_ROUND
        return CARRY_OUT if has_rare_actions(turns) else CONTINUE
    else:
        return end_round(rounds)
    return CONTINUE


@entry("int64(uint8[::1], Turn[::1], Rounds[::1], Listener[::1])")
def run_tables(memory, turns, rounds, listeners):
    """Execute steps until Python code must act. Return the reason; see ``take_step``.

    Args:
        memory: the ring.
        turns: TURN[tables].
        rounds: ROUNDS[1].
        listeners: LISTENER[2 or 3]; see ``take_step``.
    """
    asks = CONTINUE
    while asks == CONTINUE:
        asks = take_step(memory, turns, rounds[0], listeners)
    return asks
