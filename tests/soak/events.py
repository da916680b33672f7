"""What the program does between its steps, out of a seed: saves, restores, evictions, thresholds, evaluations."""
import random
from typing import Iterator, NamedTuple

SAVE, SAVE_BACKGROUND, SAVE_DELTA, RESTORE = "save", "save in the background", "delta", "restore"
EVICT, THRESHOLD, EVALUATE = "evict", "threshold", "evaluate"
SAVES = (SAVE, SAVE_BACKGROUND, SAVE_DELTA)

#: dealt again and again, shuffled: within any two decks everything has happened
DECK = (SAVE, SAVE_BACKGROUND, SAVE_BACKGROUND, SAVE_DELTA, SAVE_DELTA, RESTORE, THRESHOLD, *[EVICT] * 4,
        *[EVALUATE] * 6)
LEAST_STEPS, MOST_STEPS = 5, 50  #: between two events


class Event(NamedTuple):
    """Something between two steps.

    Attributes:
        steps: that are trained before it, after the event before.
        what: one of the names above.
        draw: in [0, 1), for what there is to choose.
    """

    steps: int
    what: str
    draw: float


def events(seed: int) -> Iterator[Event]:
    """Without end. The first ones save in each way and restore, so that a short run has done so, too."""
    dice = random.Random(seed)
    deck = [SAVE, SAVE_BACKGROUND, SAVE_DELTA, RESTORE]
    while True:
        for what in deck:
            yield Event(dice.randint(LEAST_STEPS, MOST_STEPS), what, dice.random())
        deck = dice.sample(DECK, len(DECK))
