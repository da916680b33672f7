"""Plain-Python twins of ``ascpipe/kernels/quarantine.py``, for a ``tier_memory.Tier``."""
from ascpipe.kernels.tier_memory import FREE, QUARANTINED
from tests.reference.disk_slots import free_disk_slots

NO_READER = 2**63 - 1


def oldest_reader(tier):
    return min(tier.readers.values(), default=NO_READER)


def raise_epoch(tier):
    tier.epoch += 1


def quarantine_home(tier, home):
    tier.quarantined_homes.append((home, tier.epoch))
    tier.status[home], tier.owners[home] = QUARANTINED, -1


def quarantine_slot(tier, slot):
    tier.quarantined_slots.append((slot, tier.epoch))


def quarantine_has_room(tier):
    return len(tier.quarantined_slots) <= tier.quarantined_slots_room - tier.home_rows


def free_home(tier, home):
    tier.free.append(home)
    tier.status[home], tier.owners[home] = FREE, -1


def may_take_free(tier):
    if oldest_reader(tier) > tier.grace_epoch:
        tier.grace_epoch = 0
    return tier.grace_epoch == 0


def release(tier):
    """Free the home rows and disk slots whose epoch is before the epoch of every reader."""
    oldest = oldest_reader(tier)
    homes = [home for home, epoch in tier.quarantined_homes if epoch < oldest]
    slots = [slot for slot, epoch in tier.quarantined_slots if epoch < oldest]
    del tier.quarantined_homes[:len(homes)], tier.quarantined_slots[:len(slots)]
    for home in homes:
        free_home(tier, home)
    assert free_disk_slots(tier.used_slots, tier.stacks, slots) == len(slots)
