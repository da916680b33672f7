"""Models a table as one dictionary: what the whole pipeline must compute, step by step.

Admission, timestamps, eviction and an optimizer; no slots, no tiers, no windows.
"""
import copy

import numpy as np


class Descent:
    """``w -= rate * g``."""

    slots = 0

    def __init__(self, rate):
        self.rate = np.float32(rate)

    def apply(self, row, slots, gradient):
        return row - self.rate * gradient, slots


class Adagrad:
    """``a += g * g; w -= rate * g / sqrt(a)``."""

    slots = 1

    def __init__(self, rate, first):
        self.rate, self.first = np.float32(rate), np.float32(first)

    def apply(self, row, slots, gradient):
        accumulator = (self.first if slots is None else slots) + gradient * gradient
        return row - self.rate * gradient / np.sqrt(accumulator), accumulator


class Feature:
    """What is known of a key: its count and time, and its row once it has one."""

    def __init__(self):
        self.count = self.time = 0
        self.row = self.slots = None


class TableModel:
    """The oracle of one table.

    Args:
        first_row: key -> float32[dim], the initial row.
        optimizer: applies a gradient to a row.
        threshold: occurrences before a key gets a row; -1 without admission.
        coefficient: how much an occurrence counts.
        padding: keys whose rows are never updated.
    """

    def __init__(self, first_row, optimizer, threshold=-1, coefficient=1, padding=()):
        self._first_row, self._optimizer, self._padding = first_row, optimizer, frozenset(padding)
        self.threshold, self._coefficient, self._counting = threshold, coefficient, True
        self.features = {}
        self.time = 0

    def size(self):
        """Keys that have a row."""
        return sum(feature.row is not None for feature in self.features.values())

    def train(self, keys, gradients, timestamp=0, default=0.0):
        """One step: the rows that its lookup gives, before the update.

        Args:
            keys: int64[n], in the order of their positions.
            gradients: float32[n, dim], of each position.
            timestamp: of the batch, 0 if it has none.
            default: what a key without a row gives.
        """
        self._count(keys, timestamp)
        admitted = [key for key in dict.fromkeys(keys) if self._is_admitted(key)]
        for key in admitted:
            feature = self.features[key]
            if feature.row is None:
                feature.row = self._first_row(key)
        found = self._rows(keys, default)
        for key in admitted:
            if key in self._padding:
                continue
            total = np.zeros_like(gradients[0])
            for position, other in enumerate(keys):
                if other == key:
                    total = total + gradients[position]
            feature = self.features[key]
            feature.row, feature.slots = self._optimizer.apply(feature.row, feature.slots, total)
        return found

    def evaluate(self, keys, default=0.0):
        """Rows as an evaluation between two steps finds them; changes nothing."""
        return self._rows(keys, default)

    def set_threshold(self, value):
        """Change the threshold, or with 0 stop counting occurrences.  A table without admission has no threshold."""
        if self.threshold >= 0:
            self._counting = value > 0
            self.threshold = value if value > 0 else self.threshold

    def evict(self, age):
        """Drop every key that was not used for ``age``."""
        self.features = {
            key: feature for key, feature in self.features.items() if self.time - feature.time < age}

    def reset(self, _):
        """Forget every key and the time; the threshold stays."""
        self.features, self.time = {}, 0

    def saved(self):
        """A copy of what a checkpoint holds; what is given to ``restore`` stays as it was."""
        other = copy.copy(self)
        other.features = {key: copy.copy(feature) for key, feature in self.features.items()}
        return other

    def restore(self, saved):
        """Be what ``saved`` gave."""
        self.__dict__.update(saved.saved().__dict__)

    def _count(self, keys, timestamp):
        self.time = max(self.time, timestamp)
        for key in keys:
            feature = self.features.setdefault(key, Feature())
            feature.time = self.time
            if self.threshold < 0 or self._counting:
                feature.count += self._coefficient

    def _is_admitted(self, key):
        feature = self.features.get(key)
        return feature is not None and (self.threshold < 0 or feature.count >= self.threshold)

    def _rows(self, keys, default):
        rows = []
        for key in keys:
            feature = self.features.get(key)
            has_row = feature is not None and feature.row is not None and self._is_admitted(key)
            rows.append(feature.row if has_row else np.full_like(self._first_row(key), default))
        return np.stack(rows) if rows else np.zeros((0, 0), np.float32)
