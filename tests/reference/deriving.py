"""Plain-Python twins of ``ascpipe/kernels/deriving.py``, for a ``batch_steps.Table``."""
from ascpipe.kernels.tier_memory import CANCELLED, DROPPED, FETCH_TO, FETCHED, FETCHING, FREE, PINNED, SPILLING
from ascpipe.layout.words import FREE as NO_KEY
from ascpipe.layout.words import HOME_DISK, REQUEST_ASKED, REQUEST_EMPTY, REQUEST_READ
from tests.reference.disk_requests import counts, is_stored, tell
from tests.reference.quarantine import raise_epoch


def use_slot(tier, slot):
    tier.used_slots.add(slot)


def derive_request(table, home):
    tier, request = table.tier, table.tier.requests[home]
    entry = table.entries[request.entry]
    tier.in_flight.append(home)
    if request.word == REQUEST_ASKED:
        tell(tier, home)
    if request.kind == REQUEST_READ:
        if tier.status[home] == FREE:
            tier.status[home], tier.owners[home] = FETCHING, request.entry
        return
    if not is_stored(request, entry):
        use_slot(tier, request.slot)
    if counts(request, home, entry):
        tier.status[home] = SPILLING
    else:
        tier.status[home] = CANCELLED if tier.status[home] == PINNED else DROPPED


def derive_tier(table, used):
    tier = table.tier
    tier.forget()
    tier.is_derived = True
    for number, entry in enumerate(table.entries[:used]):
        if entry.state != NO_KEY and entry.home >= 0:
            tier.status[entry.home], tier.owners[entry.home] = PINNED, number
        elif entry.state != NO_KEY and entry.home <= HOME_DISK:
            use_slot(tier, HOME_DISK - entry.home)
    for home, request in enumerate(tier.requests[:table.homes_ready]):
        if request.word != REQUEST_EMPTY:
            derive_request(table, home)
    tier.order_blocks()
    tier.grace_epoch = tier.epoch
    raise_epoch(tier)


def derive_record(table, number, record):
    tier = table.tier
    for entry, home in zip(record.held, record.homes):
        if home >= 0 and tier.status[home] == FETCHING:
            tier.status[home], tier.fetch[entry] = FETCHED, home + FETCH_TO
        elif home >= 0 and tier.status[home] == FREE:
            tier.status[home], tier.owners[home] = PINNED, entry
    tier.pinned_frames.add(number)
    tier.newest_pinned = number


def free_unused_homes(table):
    tier = table.tier
    tier.high = max([home + 1 for home, status in enumerate(tier.status) if status != FREE], default=0)
    tier.free = [home for home in reversed(range(tier.high)) if tier.status[home] == FREE]
