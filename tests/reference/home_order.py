"""Plain-Python twins of ``ascpipe/kernels/home_order.py``, for a ``batch_steps.Table``."""
from ascpipe.kernels.rescoring import MOST_USES
from ascpipe.kernels.tier_memory import CANDIDATE, PINNED
from ascpipe.layout.structs import MAX_FRAMES
from tests.reference.rescoring import score_of, take_victims


def frames_of(table, entry):
    """Return the numbers of the window's frames that hold the entry, or whose record changes it."""
    return {number for number, held in table.window.items() if entry in held or entry in table.others[number]}


def home_score(table, entry):
    far = frames_of(table, entry) - table.tier.pinned_frames
    return score_of(table.view[entry][3], sum(1 << number % 64 for number in far), table.newest, table.tier.first_use)


def may_spill(table, home):
    entry = table.tier.owners[home]
    known = table.entries[entry]
    return ((known.slot, known.home) == (-1, home) and table.view[entry][:2] == (-1, home)
            and not frames_of(table, entry) & table.tier.pinned_frames)


def offer_home(table, home):
    tier = table.tier
    if tier.is_ordered and tier.status[home] == PINNED and may_spill(table, home):
        tier.scores[home] = home_score(table, tier.owners[home])
        tier.status[home] = CANDIDATE


def pin_home(tier, home):
    del tier.scores[home]
    tier.status[home] = PINNED


def order_homes(table):
    tier = table.tier
    tier.status = [PINNED if status == CANDIDATE else status for status in tier.status]
    tier.is_ordered, tier.scores, tier.first_use = True, {}, table.newest - MAX_FRAMES + 1
    for home in range(len(tier.status)):
        offer_home(table, home)


def take_candidates(table, n):
    """Take up to n home rows."""
    tier = table.tier
    if table.newest - tier.first_use > MOST_USES:
        order_homes(table)
    chosen, tier.scores = take_victims(n, lambda home: home_score(table, tier.owners[home]), tier.scores)
    for home in chosen:
        tier.status[home] = PINNED
    return chosen
