"""Plain-Python twins of ``ascpipe/kernels/pinning.py``, for a ``batch_steps.Table``."""
from ascpipe.kernels.asks import LACKS_NOTHING, LACKS_ROWS
from ascpipe.kernels.tier_memory import CANCELLED, CANDIDATE, FETCH_QUEUED, FETCH_TO, FETCHED, NO_FETCH, SPILLING
from ascpipe.layout.words import HOME_DISK, HOME_NONE, PLAN_HOST_SMALL, PLAN_OK
from tests.reference.disk_requests import GENERATIONS, empty_request
from tests.reference.home_order import frames_of, offer_home, order_homes, pin_home
from tests.reference.quarantine import free_home


def free_home_rows(table):
    return len(table.tier.free) + table.home_rows - table.tier.high


def statuses(table, entries):
    """Return the statuses of the home rows that entries have in the view."""
    return [table.tier.status[table.view[entry][1]] for entry in entries if table.view[entry][1] >= 0]


def soon_free(table):
    """Return the number of home rows that are free, in quarantine or being spilled."""
    return free_home_rows(table) + len(table.tier.quarantined_homes) + table.tier.spilling


def have_room(table, entries):
    tier = table.tier
    lacks = tier.lacking + sum(
        table.view[entry][1] < 0 and tier.fetch.get(entry, NO_FETCH) == NO_FETCH for entry in entries)
    room = soon_free(table) - statuses(table, entries).count(SPILLING)
    if lacks > room and not tier.is_ordered:
        order_homes(table)
    return lacks <= room or lacks <= room + tier.candidates - statuses(table, entries).count(CANDIDATE)


def queue_has_room(tier, n):
    return len(tier.fetch_queue) + n <= tier.fetch_queue_room


def pin_frame(table, number):
    tier, held = table.tier, table.window[number]
    tier.new_keys[number] = sum(table.view[entry][1] == HOME_NONE for entry in held)
    tier.pinned_frames.add(number)
    tier.newest_pinned = number
    for entry in held:
        home = table.view[entry][1]
        if home >= 0 and tier.status[home] == CANDIDATE:
            pin_home(tier, home)
        elif home >= 0 and tier.status[home] == SPILLING:
            table.entries[entry].generation = (table.entries[entry].generation + 1) % GENERATIONS
            tier.status[home] = CANCELLED
        elif home <= HOME_DISK and entry not in tier.fetch:
            tier.fetch[entry] = FETCH_QUEUED
            tier.fetch_queue.append(entry)


def rows_are_resident(table, number):
    return all(table.view[entry][1] > HOME_DISK for entry in table.window[number])


def forget_new_keys(tier, number):
    tier.new_keys[number] = 0


def unpin_frame(table, number):
    tier = table.tier
    if number not in tier.pinned_frames:
        return
    tier.pinned_frames.remove(number)
    forget_new_keys(tier, number)
    for entry in table.window[number] + table.others[number]:
        if frames_of(table, entry) & tier.pinned_frames:
            continue
        copy, home = tier.fetch.pop(entry, NO_FETCH), table.view[entry][1]
        if copy == NO_FETCH:
            if home >= 0:
                offer_home(table, home)
        elif copy >= FETCH_TO and tier.status[copy - FETCH_TO] == FETCHED:
            table.view[entry] = (table.view[entry][0], table.entries[entry].home, *table.view[entry][2:])
            empty_request(tier, copy - FETCH_TO)
            free_home(tier, copy - FETCH_TO)


def lacks_rows(table, number):
    """Return (lacks, status)."""
    tier = table.tier
    if not tier:
        return LACKS_NOTHING, PLAN_OK
    if number in tier.pinned_frames:
        return LACKS_NOTHING if rows_are_resident(table, number) else LACKS_ROWS, PLAN_OK
    if not tier.pinned_frames and not tier.in_flight and not have_room(table, table.window[number]):
        return LACKS_NOTHING, PLAN_HOST_SMALL
    return LACKS_ROWS, PLAN_OK


def note_wait(tier, turn):
    if turn.lacks == LACKS_NOTHING:
        tier.waiting = 0
    elif turn.lacks == LACKS_ROWS and tier.waiting != turn.number + 1:
        tier.waiting = turn.number + 1
        tier.waits += 1
