"""Plain-Python twin of ``ascpipe/kernels/assign_homes.py``, for a ``batch_steps.Table``."""
from ascpipe.kernels.tier_memory import PINNED
from ascpipe.layout.words import HOME_DISK, REQUEST_EMPTY, TRAINED
from tests.reference.disk_requests import empty_request
from tests.reference.quarantine import quarantine_slot, raise_epoch


def assign_homes(table, record):
    tier, left = table.tier, []
    for number, home in zip(record.held, record.homes):
        entry = table.entries[number]
        before = entry.home
        if home < 0:
            continue
        if before != home:
            entry.home, entry.state = home, TRAINED
        if not tier.is_derived:
            continue
        if before != home:
            tier.owners[home], tier.status[home] = number, PINNED
            if before <= HOME_DISK:
                quarantine_slot(tier, HOME_DISK - before)
                left.append(number)
        if tier.fetch.pop(number, None) is not None and tier.requests[home].word != REQUEST_EMPTY:
            empty_request(tier, home)
    if left:
        raise_epoch(tier)
