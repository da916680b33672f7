"""The batches of a case of ``ranked.py``: this rank's lines of each."""
import time
from typing import Any, Dict, Iterator, Tuple

import numpy as np
import tensorflow as tf

from tests.support.programs.ranked_case import RANK, RANKS, Case, Feature, Table
from tests.support.tensorflows import use_tensorflow_1

use_tensorflow_1()

STALL_S = 3.0
_REFUSED = 9  # the label of a line that a filter takes out


class Lines:
    """Ids of each feature, labels, and the time where keys are evicted.

    Args:
        case: its ``trace`` is the path of int64[lines, 1 + features]: label, and one id for each feature by name.
        features, tables: those that this rank has.
    """

    def __init__(self, case: Case, features: Dict[str, Feature], tables: Dict[str, Table]) -> None:
        self.features = features
        self._case, self._tables = case, tables
        self._trace = np.load(case.trace) if case.trace else None

    def types_and_shapes(self) -> Tuple[Dict[str, Any], Dict[str, Any]]:
        """Of a batch; sizes are None unless they are static."""
        count = self._case.batch // RANKS if self._case.static else None
        types = {"label": tf.float32, **dict.fromkeys(self.features, tf.int64)}
        shapes = {"label": [count], **{name: [count, feature.width] for name, feature in self.features.items()}}
        if self._case.evict_each:
            types["time"], shapes["time"] = tf.int64, []
        return types, shapes

    def training(self) -> Iterator[Dict[str, np.ndarray]]:
        """Of every batch that is to be trained, and of some more."""
        case, random = self._case, np.random.RandomState(1)
        for step in range(case.steps + 3):
            at_fault = step == case.fault.get("step")
            if at_fault and case.fails("ends_early"):
                return
            if at_fault and case.fails("stalls"):
                time.sleep(STALL_S)
            ids = self._generated(random) if self._trace is None else self._of_trace(step)
            if step < case.first:
                continue
            part = self._part(ids, step)
            if at_fault and case.fails("filters", "filters_keys"):
                part["label"][0] = _REFUSED
            yield part

    def all_keys(self) -> Iterator[Dict[str, np.ndarray]]:
        """Of batches that have every key at least once in each column."""
        case = self._case
        keys = {name: self._keys_of(1 + i, feature) for i, (name, feature) in enumerate(self.features.items())}
        for first in range(0, max(len(some) for some in keys.values()), case.batch):
            columns = {name: some[(first + np.arange(case.batch)) % len(some)] for name, some in keys.items()}
            ids = {name: np.stack([columns[name]] * feature.width, 1) for name, feature in self.features.items()}
            ids["label"] = np.arange(case.batch) % 2
            yield self._part(ids, 0)

    def kept(self, dataset: tf.data.Dataset, *kinds: str) -> tf.data.Dataset:
        """The dataset without the line that a filter takes out, for faults of some kinds."""
        if not self._case.fails(*kinds):
            return dataset
        return dataset.filter(lambda batch: tf.not_equal(batch["label"][0], _REFUSED))

    def _generated(self, random: np.random.RandomState) -> Dict[str, np.ndarray]:
        case = self._case
        ids = {name: random.zipf(1.2, (case.batch, feature.width)) % case.keys + self._lowest(feature)
               for name, feature in self.features.items()}
        return {**ids, "label": random.randint(0, 2, case.batch)}

    def _of_trace(self, step: int) -> Dict[str, np.ndarray]:
        lines = self._trace[step * self._case.batch:(step + 1) * self._case.batch]
        return {"label": lines[:, 0], **{name: lines[:, 1 + i, None] for i, name in enumerate(self.features)}}

    def _keys_of(self, column: int, feature: Feature) -> np.ndarray:
        if self._trace is not None:
            return np.unique(self._trace[:, column])
        return np.arange(self._case.keys) + self._lowest(feature)

    def _lowest(self, feature: Feature) -> int:
        return 0 if self._tables[feature.table].padding else -(self._case.keys // 2)

    def _part(self, lines: Dict[str, np.ndarray], step: int) -> Dict[str, np.ndarray]:
        count = self._case.batch // RANKS
        part = {name: value[RANK * count:(RANK + 1) * count] for name, value in lines.items()}
        part = {name: value.astype(np.float32 if name == "label" else np.int64) for name, value in part.items()}
        return {**part, "time": np.int64(step + 1)} if self._case.evict_each else part
