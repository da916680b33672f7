"""Functions that compute scalars for the steps between two ``status`` requests to the daemon."""
from typing import Any, Dict, NamedTuple, Optional

from ascpipe.layout.words import TRAIN

_TRAIN = ("train", "eval", "local")[TRAIN]


class Answer(NamedTuple):
    """An answer of the daemon to ``status``, and the monotonic time of the request in seconds."""

    status: Dict[str, Any]
    at: float


def scalars(before: Answer, after: Answer) -> Dict[str, float]:
    """Return a dict: tag -> value of the scalar. Tables that were not trained between the answers are omitted.

    Return an empty dict if the trainer has changed.
    """
    if before.status["trainer"] is None or before.status["trainer"] != after.status["trainer"]:
        return {}
    found: Dict[str, float] = {}
    earlier = {table["name"]: table for table in before.status["tables"]}
    ids = 0
    for table in after.status["tables"]:
        old = earlier.get(table["name"])
        grown = {key: table[key] - (0 if old is None else old[key])
                 for key in ("ids", "batches", "hits", "misses", "loads", "fetches", "spills")}
        ids += grown["ids"]
        if grown["batches"] > 0:
            found.update(_of_table(table, grown))
    if after.at > before.at:
        found["ids_per_s"] = ids / (after.at - before.at)
    for ring in after.status["rings"]:
        if ring["channel"] == _TRAIN:
            found["ring_depth/stream_{}".format(ring["stream"])] = float(ring["depth"])
    return found


def _of_table(table: Dict[str, Any], grown: Dict[str, int]) -> Dict[str, float]:
    """For one table, return the share of distinct keys with rows in each location, and the number of rows moved per
    batch.
    """
    name = table["name"]
    on_disk = table["disk_slots"] > 0
    at_home = table["home_rows"] > 0
    fetched = min(grown["fetches"], grown["loads"])  # rows may be fetched before the batch that loads them
    shares: Dict[str, Optional[int]] = {
        "device": grown["hits"], "host": grown["loads"] - fetched if at_home else None,
        "disk": fetched if on_disk else None, "new": grown["misses"] - grown["loads"]}
    moved: Dict[str, Optional[int]] = {
        "host_to_device": grown["loads"] if at_home else None, "disk_to_host": grown["fetches"] if on_disk else None,
        "host_to_disk": grown["spills"] if on_disk else None}
    looked_up = grown["hits"] + grown["misses"]
    found = {"rows_moved_per_step/{}/{}".format(name, what): count / grown["batches"]
             for what, count in moved.items() if count is not None}
    if looked_up > 0:
        found.update({"hit_rate/{}/{}".format(name, tier): count / looked_up
                      for tier, count in shares.items() if count is not None})
    return found
