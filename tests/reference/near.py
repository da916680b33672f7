"""Plain-Python twins of ``ascpipe/kernels/near.py``, of a ``batch_steps.Table``."""
from ascpipe.kernels.asks import LACKS_NOTHING, LACKS_ROWS
from ascpipe.kernels.tier_memory import ARRIVED, CANDIDATE, COMES, KEPT, LEAVING, NOT_COMING, TO_COME
from ascpipe.layout.words import HOME_DISK, HOME_NONE, PLAN_HOST_SMALL, PLAN_OK
from tests.reference.disk_requests import GENERATIONS, empty_request
from tests.reference.home_order import frames_of, offer_home, order_homes, pin_home
from tests.reference.rests import free_home


def free_home_rows(table):
    return len(table.tier.free) + table.home_rows - table.tier.high


def statuses(table, entries):
    """Of those of the home rows that they have in the view."""
    return [table.tier.status[table.view[entry][1]] for entry in entries if table.view[entry][1] >= 0]


def have_room(table, entries):
    tier = table.tier
    lacks = tier.lacking + sum(
        table.view[entry][1] < 0 and tier.coming.get(entry, NOT_COMING) == NOT_COMING for entry in entries)
    there = (free_home_rows(table) + len(tier.resting_homes) + tier.leaving
             - statuses(table, entries).count(LEAVING))
    if lacks <= there:
        return True
    if not tier.is_ordered:
        order_homes(table)
    return have_room_ordered(table, entries, lacks, there)


def have_room_ordered(table, entries, lacks, there):
    return lacks <= there + table.tier.candidates - statuses(table, entries).count(CANDIDATE)


def may_want(tier, n):
    return len(tier.wanted) + n <= tier.wanted_room


def make_near(table, number):
    tier, held = table.tier, table.window[number]
    tier.new_keys[number] = sum(table.view[entry][1] == HOME_NONE for entry in held)
    tier.near_frames.add(number)
    tier.near = number
    for entry in held:
        home = table.view[entry][1]
        if home >= 0 and tier.status[home] == CANDIDATE:
            pin_home(tier, home)
        elif home >= 0 and tier.status[home] == LEAVING:
            table.entries[entry].generation = (table.entries[entry].generation + 1) % GENERATIONS
            tier.status[home] = KEPT
        elif home <= HOME_DISK and entry not in tier.coming:
            tier.coming[entry] = TO_COME
            tier.wanted.append(entry)


def rows_are_here(table, number):
    return all(table.view[entry][1] > HOME_DISK for entry in table.window[number])


def count_planned(tier, number):
    tier.new_keys[number] = 0


def leave_near(table, number):
    tier = table.tier
    if number not in tier.near_frames:
        return
    tier.near_frames.remove(number)
    count_planned(tier, number)
    for entry in table.window[number] + table.others[number]:
        if frames_of(table, entry) & tier.near_frames:
            continue
        copy, home = tier.coming.pop(entry, NOT_COMING), table.view[entry][1]
        if copy == NOT_COMING:
            if home >= 0:
                offer_home(table, home)
        elif copy >= COMES and tier.status[copy - COMES] == ARRIVED:
            table.view[entry] = (table.view[entry][0], table.entries[entry].home, *table.view[entry][2:])
            empty_request(tier, copy - COMES)
            free_home(tier, copy - COMES)


def lacks_rows(table, number):
    """(lacks, status)."""
    tier = table.tier
    if not tier:
        return LACKS_NOTHING, PLAN_OK
    if number in tier.near_frames:
        return LACKS_NOTHING if rows_are_here(table, number) else LACKS_ROWS, PLAN_OK
    if not tier.near_frames and not tier.under_way and not have_room(table, table.window[number]):
        return LACKS_NOTHING, PLAN_HOST_SMALL
    return LACKS_ROWS, PLAN_OK


def say_that_it_waits(tier, turn):
    if turn.lacks == LACKS_NOTHING:
        tier.waiting = 0
    elif turn.lacks == LACKS_ROWS and tier.waiting != turn.number + 1:
        tier.waiting = turn.number + 1
        tier.waits += 1
