"""Plain-Python twins of ``ascpipe/kernels/ring_rounds.py``."""
from ascpipe.kernels.asks import CARRY_OUT, CONTINUE, ENDED, PROVIDE, RING
from ascpipe.layout.words import PLANNED, RETIRED, TOUCHED
from tests.reference.asks import look_at_bells
from tests.reference.disk_steps import move_table_rows
from tests.reference.next_action import NOTHING, PLAN, RETIRE, TOUCH
from tests.reference.ring_steps import (
    LEAVE,
    assign_frames,
    leave_frames,
    look_at_tables,
    plan_frames,
    store_words,
    touch_frames,
)

(LOOK, ASSIGN, STORE_RETIRED, LEAVE_WINDOW, MOVE_ROWS, MAKE_PLANS, STORE_PLANNED, FIND_ENTRIES, STORE_TOUCHED,
 FIND_RARE_ACTIONS, END_ROUND) = range(11)


class Rounds:
    """Progress of a table worker."""

    def __init__(self):
        self.at, self.left, self.acted, self.done, self.plans = LOOK, 0, 0, 0, 0


def count_step(rounds, made, then):
    rounds.acted += made[0]
    if made[1]:
        return PROVIDE
    rounds.at = then
    return CONTINUE


def has_rare_actions(turns):
    return any(turn.action != NOTHING or turn.is_loading for turn in turns)


def end_round(rounds):
    rounds.at = LOOK
    rounds.done += rounds.acted
    rounds.left -= 1
    return CONTINUE if rounds.acted and rounds.left > 0 else ENDED


def take_step(ring, turns, rounds, listeners):
    at, has_disk = rounds.at, len(listeners) > 2
    if at == ASSIGN:
        return count_step(rounds, assign_frames(ring, turns), STORE_RETIRED)
    if at == MOVE_ROWS:
        made = move_table_rows(ring, turns)
        asks = count_step(rounds, made, MAKE_PLANS)
        return RING if asks == CONTINUE and made[0] and look_at_bells(listeners[2:]) else asks
    if at == MAKE_PLANS:
        return count_step(rounds, plan_frames(ring, turns), STORE_PLANNED)
    if at == FIND_ENTRIES:
        return count_step(rounds, touch_frames(ring, turns), STORE_TOUCHED)
    if at == END_ROUND:
        return end_round(rounds)
    rounds.at += 1
    if at == LOOK:
        ready, rounds.plans = look_at_tables(ring, turns)
        rounds.acted = 0
        rounds.at = ASSIGN if ready or has_disk else FIND_RARE_ACTIONS
    elif at == STORE_RETIRED:
        return RING if store_words(ring, turns, RETIRE, LEAVE, RETIRED) and look_at_bells(listeners[:2]) else CONTINUE
    elif at == LEAVE_WINDOW:
        leave_frames(turns, NOTHING)
        rounds.at = MOVE_ROWS if has_disk else MAKE_PLANS
    elif at == STORE_PLANNED:
        return RING if store_words(ring, turns, PLAN, NOTHING, PLANNED) and look_at_bells(listeners[:1]) else CONTINUE
    elif at == STORE_TOUCHED:
        store_words(ring, turns, TOUCH, NOTHING, TOUCHED)
    else:
        return CARRY_OUT if has_rare_actions(turns) else CONTINUE
    return CONTINUE


def run_tables(ring, turns, rounds, listeners):
    asks = CONTINUE
    while asks == CONTINUE:
        asks = take_step(ring, turns, rounds, listeners)
    return asks
