"""The policy of the device cache, written a second time: lists, dictionaries and sorting, nothing of the planner.

For each batch in turn, with the batches after it known as far as the window goes:

* keys that are on the device stay where they are;
* the others get the lowest free slots, then those of victims: keys that no known later batch uses, by score and
  then slot; when these do not suffice, keys by how late they are used next, the latest first, then by slot;
* no key of the batch itself is a victim;
* the score of each key of the batch is 64 log2 of its decayed uses, rounded after each use.
"""
import math


class WindowPolicy:
    """A device with a number of rows, empty at first."""

    def __init__(self, device_rows):
        self.free = list(range(device_rows))
        self.slots, self.scores, self.seen = {}, {}, set()
        self.misses = self.refetches = 0

    def plan(self, now, batch, later):
        """Let a batch in.

        Args:
            now: its number, from 1.
            batch: its distinct keys.
            later: the batches after it that are known, the next one first.

        Returns:
            (slots of its keys, slots that were taken from victims in order).
        """
        absent = [key for key in batch if key not in self.slots]
        # new keys get their slots first
        absent.sort(key=lambda key: key in self.seen)
        self.misses += len(absent)
        self.refetches += sum(key in self.seen for key in absent)
        given = self.free[:len(absent)]
        victims = self.victims(set(batch), later, len(absent) - len(given))
        self.free = self.free[len(given):]
        given += [self.slots.pop(key) for key in victims]
        self.slots.update(zip(absent, given))
        for key in batch:
            self.scores[key] = self.score(self.scores.get(key, 0), now)
        self.seen.update(batch)
        return [self.slots[key] for key in batch], given[len(given) - len(victims):]

    def victims(self, batch, later, n):
        if n <= 0:
            return []
        next_use = {}
        for number in reversed(range(len(later))):  # an earlier use takes the place of a later one
            next_use.update(dict.fromkeys(later[number], number))
        others = [key for key in self.slots if key not in batch]
        idle = sorted((key for key in others if key not in next_use),
                      key=lambda key: (self.scores[key], self.slots[key]))
        wanted = sorted((key for key in others if key in next_use),
                        key=lambda key: (-next_use[key], self.slots[key]))
        return (idle + wanted)[:n]

    @staticmethod
    def score(score, now):
        if score == 0:
            return now
        upper, lower = max(score, now), min(score, now)
        return upper + round(64 * math.log2(1 + 2 ** ((lower - upper) / 64)))


def replay(batches, device_rows, window):
    """Run a whole trace; returns the policy with its counters and, for each batch, what ``plan`` returned."""
    policy = WindowPolicy(device_rows)
    return policy, [policy.plan(number + 1, batch, batches[number + 1:number + 1 + window])
                    for number, batch in enumerate(batches)]
