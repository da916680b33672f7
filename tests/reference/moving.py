"""Plain-Python twins of ``ascpipe/kernels/moving.py``, of a ``batch_steps.Table``."""
from ascpipe.kernels.tier_memory import COMES, COMING, LEAVING, TO_COME
from ascpipe.layout.words import HOME_DISK, REQUEST_READ, REQUEST_WRITE
from tests.reference.disk_requests import ask
from tests.reference.disk_slots import place_rows
from tests.reference.home_order import offer_home, order_homes, take_candidates
from tests.reference.near import free_home_rows
from tests.reference.rests import may_rest, may_take_free, release

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
    """How many were asked for."""
    tier, asked, most = table.tier, 0, table.tier.room_for_asks
    if not tier.wanted or not may_take_free(tier) or not may_rest(tier):
        return 0
    while tier.wanted and asked < most:
        entry = tier.wanted[0]
        if tier.coming.get(entry) == TO_COME:
            home = take_home(table)
            if home == NO_HOME:
                break
            tier.status[home], tier.owners[home], tier.coming[entry] = COMING, entry, home + COMES
            ask(tier, table.key_of(entry), table.entries[entry], entry, home, REQUEST_READ,
                HOME_DISK - table.entries[entry].home)
            asked += 1
        del tier.wanted[0]
    tier.fetches += asked
    return asked


def soon_free(table):
    """Home rows that are free, or will be without more ado."""
    return free_home_rows(table) + len(table.tier.resting_homes) + table.tier.leaving


def spill_rows(table):
    """How many were sent."""
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
        tier.status[home] = LEAVING
        ask(tier, table.key_of(entry), table.entries[entry], entry, home, REQUEST_WRITE, slot)
    for home in homes[len(slots):]:
        offer_home(table, home)
    tier.spills += len(slots)
    return len(slots)


def is_stuck(table):
    tier = table.tier
    return (tier.lacking > soon_free(table) and tier.candidates > 0 and tier.room_for_asks > 0
            and not (tier.under_way or tier.rests_until or tier.resting_slots))


def move_rows(table):
    """How many requests were asked."""
    release(table.tier)
    return fetch_rows(table) + spill_rows(table)
