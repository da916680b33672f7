"""Plain-Python twins of ``ascpipe/kernels/completions.py``, for a ``batch_steps.Table``."""
from ascpipe.kernels.tier_memory import CANCELLED, DROPPED, FETCH_TO, FETCHED, FETCHING, PINNED, SPILLING
from ascpipe.layout.words import REQUEST_ASKED, REQUEST_DONE, REQUEST_READ, REQUEST_TAKEN
from tests.reference.disk_requests import GENERATIONS, counts, empty_request, is_stored, place_after
from tests.reference.disk_slots import free_disk_slots
from tests.reference.home_order import offer_home
from tests.reference.quarantine import free_home, quarantine_home, raise_epoch


def complete_read(table, home):
    tier = table.tier
    request, entry = tier.requests[home], tier.requests[home].entry
    if counts(request, home, table.entries[entry]):
        if request.word != REQUEST_DONE:
            tier.lost = home
            return
        if tier.fetch.get(entry) == home + FETCH_TO:
            tier.status[home] = FETCHED
            table.view[entry] = (table.view[entry][0], home, *table.view[entry][2:])
            return
    empty_request(tier, home)
    if tier.status[home] == FETCHING:
        free_home(tier, home)


def complete_write(table, home):
    tier, request = table.tier, table.tier.requests[home]
    entry, is_done = table.entries[request.entry], request.word == REQUEST_DONE
    of_use = counts(request, home, entry)
    empty_request(tier, home)
    if of_use and is_done:
        entry.home, entry.generation = place_after(request)
        row = table.view[request.entry]
        table.view[request.entry] = (row[0], entry.home, *row[2:])
        quarantine_home(tier, home)
        return
    if of_use:
        entry.generation = (entry.generation + 1) % GENERATIONS
    if not is_done:
        tier.failed_writes += 1
        tier.last_error = request.error
    elif not is_stored(request, entry):
        free_disk_slots(tier.used_slots, tier.stacks, [request.slot])
    if tier.status[home] == DROPPED:
        quarantine_home(tier, home)
    elif tier.status[home] in (SPILLING, CANCELLED):
        tier.status[home] = PINNED
        offer_home(table, home)


def complete_requests(table):
    """Complete all requests that have ended, and return their number."""
    tier = table.tier
    at_it = [home for home in tier.in_flight if tier.requests[home].word in (REQUEST_ASKED, REQUEST_TAKEN)]
    ended = [home for home in tier.in_flight if home not in at_it]
    for home in ended:
        (complete_read if tier.requests[home].kind == REQUEST_READ else complete_write)(table, home)
    tier.in_flight = at_it
    if ended:
        raise_epoch(tier)
    return len(ended)
