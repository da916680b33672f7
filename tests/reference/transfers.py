"""Plain-Python twins of ``ascpipe/kernels/transfers.py``, for a ``batch_steps.Table``."""
from ascpipe.kernels.tier_memory import FETCH_QUEUED, FETCH_TO, FETCHING, SPILLING
from ascpipe.layout.words import HOME_DISK, REQUEST_READ, REQUEST_WRITE
from tests.reference.disk_requests import ask
from tests.reference.disk_slots import place_rows
from tests.reference.home_order import offer_home, order_homes, take_candidates
from tests.reference.pinning import soon_free
from tests.reference.quarantine import may_take_free, quarantine_has_room, release

NO_HOME = -1


def take_home(table):
    tier = table.tier
    if tier.free:
        return tier.free.pop()
    if tier.high >= table.homes_ready:
        return NO_HOME
    tier.high += 1
    return tier.high - 1


def fetch_rows(table):
    """Request queued rows from disk, and return the number of requests."""
    tier, asked, most = table.tier, 0, table.tier.room_for_asks
    if not tier.fetch_queue or not may_take_free(tier) or not quarantine_has_room(tier):
        return 0
    while tier.fetch_queue and asked < most:
        entry = tier.fetch_queue[0]
        if tier.fetch.get(entry) == FETCH_QUEUED:
            home = take_home(table)
            if home == NO_HOME:
                break
            tier.status[home], tier.owners[home], tier.fetch[entry] = FETCHING, entry, home + FETCH_TO
            ask(tier, table.key_of(entry), table.entries[entry], entry, home, REQUEST_READ,
                HOME_DISK - table.entries[entry].home)
            asked += 1
        del tier.fetch_queue[0]
    tier.fetches += asked
    return asked


def spill_rows(table):
    """Request writes of rows to disk, and return the number of requests."""
    tier = table.tier
    short = min(tier.lacking - soon_free(table), tier.room_for_asks)
    if short <= 0 or not may_take_free(tier):
        return 0
    if not tier.is_ordered:
        order_homes(table)
    homes = take_candidates(table, short)
    slots = [slot for slot, _ in place_rows(tier.used_slots, tier.stacks, len(homes))]
    for home, slot in zip(homes, slots):
        entry = tier.owners[home]
        tier.status[home] = SPILLING
        ask(tier, table.key_of(entry), table.entries[entry], entry, home, REQUEST_WRITE, slot)
    for home in homes[len(slots):]:
        offer_home(table, home)
    tier.spills += len(slots)
    return len(slots)


def is_out_of_disk_slots(table):
    tier = table.tier
    return (tier.lacking > soon_free(table) and tier.candidates > 0 and tier.room_for_asks > 0
            and not (tier.in_flight or tier.grace_epoch or tier.quarantined_slots))


def move_rows(table):
    """End quarantines, then request fetches and spills; return the number of requests."""
    release(table.tier)
    return fetch_rows(table) + spill_rows(table)
