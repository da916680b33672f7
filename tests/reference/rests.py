"""Plain-Python twins of ``ascpipe/kernels/rests.py``, of a ``tier_memory.Tier``."""
from ascpipe.kernels.tier_memory import FREE, RESTING
from tests.reference.disk_slots import free_disk_slots

NO_READER = 2**63 - 1


def oldest_reader(tier):
    return min(tier.readers.values(), default=NO_READER)


def raise_epoch(tier):
    tier.epoch += 1


def rest_home(tier, home):
    tier.resting_homes.append((home, tier.epoch))
    tier.status[home], tier.owners[home] = RESTING, -1


def rest_slot(tier, slot):
    tier.resting_slots.append((slot, tier.epoch))


def may_rest(tier):
    return len(tier.resting_slots) <= tier.resting_slots_room - tier.home_rows


def free_home(tier, home):
    tier.free.append(home)
    tier.status[home], tier.owners[home] = FREE, -1


def may_take_free(tier):
    if oldest_reader(tier) > tier.rests_until:
        tier.rests_until = 0
    return tier.rests_until == 0


def release(tier):
    """Those that were left in an epoch before that of every reader."""
    oldest = oldest_reader(tier)
    homes = [home for home, epoch in tier.resting_homes if epoch < oldest]
    slots = [slot for slot, epoch in tier.resting_slots if epoch < oldest]
    del tier.resting_homes[:len(homes)], tier.resting_slots[:len(slots)]
    for home in homes:
        free_home(tier, home)
    assert free_disk_slots(tier.used_slots, tier.stacks, slots) == len(slots)
