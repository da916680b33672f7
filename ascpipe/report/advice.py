"""Advice for the next run, computed from the statistics of a finished run. The functions are pure.

An expected gain is an upper limit. It assumes that the change removes all of the waiting time that it addresses.
"""
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

_NOTICED = 0.1  # minimum share of the time that is worth a change
_FULL = 0.98  # share of used device rows of a full device
_MUCH_ROOM = 0.5  # share of used device rows below which a table has more device rows than it needs
_SLACK = 1.25  # safety factor of a recommended size
_LEAST_SAVED_BYTES = 1 << 20


class Advice(NamedTuple):
    """One recommended change.

    Attributes:
        change: what to change.
        reason: figures of the run that justify the change.
        gain: upper limit of the expected gain in steps/s, as a share; 0 if the change only saves memory.
        setting: name and value of the setting of ascpipe to change, or None if the program must change.
    """

    change: str
    reason: str
    gain: float
    setting: Optional[Tuple[str, int]] = None


def advice_of(figures: Mapping[str, Any]) -> List[Advice]:
    """Return the recommended changes, largest gain first.

    Args:
        figures: ``bottlenecks`` (name -> share of the run's time), ``tables`` (dicts with ``name``, ``rows``,
            ``device_rows``, ``home_rows``, ``row_bytes``, ``device_hit_rate`` and ``loads``), ``reading`` (dict with
            ``busy`` and ``full``, or None), ``workers``, ``table_workers`` and ``cores``.
    """
    shares: Dict[str, float] = figures["bottlenecks"]
    found: List[Advice] = []
    found += _of_workers(figures, shares)
    found += _of_input(figures, shares.get("input", 0.0))
    found += _of_devices(figures, shares.get("table worker", 0.0) + shares.get("disk", 0.0))
    if shares.get("peer", 0.0) >= _NOTICED:
        found.append(Advice("Give each rank an equal amount of work, or use a faster network",
                            "Steps waited for other ranks for {:.0f} % of the time".format(100 * shares["peer"]),
                            _gain(shares["peer"])))
    return sorted(found, key=lambda one: -one.gain)


def _gain(share: float) -> float:
    """Return the relative increase in steps/s if the step time decreases by ``share``. The returned increase is at most
    9 (900 %).
    """
    return 1 / max(0.1, 1 - share) - 1


def _of_workers(figures: Mapping[str, Any], shares: Mapping[str, float]) -> List[Advice]:
    found = []
    for name, setting, most in (("key worker", "workers", 16), ("table worker", "table_workers",
                                                                 len(figures["tables"]))):
        share = shares.get(name, 0.0)
        if share < _NOTICED:
            continue
        count = figures[setting]
        processes = figures["workers"] + figures["table_workers"] + 1
        if count < most and processes < figures["cores"]:
            found.append(Advice("Set {} to {}".format(setting, count + 1), "Steps waited for the {} for {:.0f} % of "
                                "the time, and {} cores may be used".format(name, 100 * share, figures["cores"]),
                                _gain(share * count / (count + 1) if count > 1 else share / 2),
                                (setting, count + 1)))
    return found


def _of_input(figures: Mapping[str, Any], share: float) -> List[Advice]:
    reading = figures["reading"]
    if share < _NOTICED:
        return []
    text = "The input limited the speed for {:.0f} % of the time".format(100 * share)
    if reading is None:
        return [Advice("Read with asc.data.read, or add num_parallel_calls to dataset.map() and prefetch() to the end "
                       "of the dataset", text + ", and the program does not use asc.data.read", _gain(share))]
    if reading["busy"] >= 0.8:
        return [Advice("Increase readers= of asc.data.read from {}".format(reading["readers"]),
                       text + "; its readers were busy for {:.0f} %".format(100 * reading["busy"]), _gain(share))]
    if reading["full"] >= 0.5:
        return [Advice("Speed up the stages after asc.data.read, or prefetch() more batches after them", text + "; "
                       "readers waited for {:.0f} % because enough batches were ready".format(100 * reading["full"]),
                       _gain(share))]
    return [Advice("Increase read_ahead= of asc.data.read", text + "; its readers were busy for {:.0f} % only".format(
        100 * reading["busy"]), _gain(share))]


def _of_devices(figures: Mapping[str, Any], waited: float) -> List[Advice]:
    """Return advice on the number of device rows of each table. The expected gain is divided among tables in proportion
    to the number of rows that each table swaps in.
    """
    found = []
    loads = sum(table["loads"] for table in figures["tables"]) or 1
    for table in figures["tables"]:
        rate = table["device_hit_rate"]
        used = min(table["rows"], table["device_rows"])
        is_full = table["home_rows"] and used >= _FULL * table["device_rows"]
        if waited >= _NOTICED and is_full and rate is not None and table["loads"]:
            size = min(table["rows"], table["home_rows"])
            change = "Increase device_vocabulary_size of {!r} from {:,} to up to {:,}, which takes {:,.1f} MB or more"
            if size > table["device_rows"]:
                found.append(Advice(
                    change.format(table["name"], table["device_rows"], size,
                                  (size - table["device_rows"]) * table["row_bytes"] / 1e6),
                    "{:.1f} % of its keys were on the device, and {:,} rows were swapped in".format(
                        100 * rate, table["loads"]), _gain(waited * table["loads"] / loads)))
        wanted = int(_SLACK * table["rows"])
        saved = (table["device_rows"] - wanted) * table["row_bytes"]
        if table["rows"] < _MUCH_ROOM * table["device_rows"] and saved >= _LEAST_SAVED_BYTES:
            change = "Reduce device_vocabulary_size of {!r} from {:,} to {:,}, which saves {:,.1f} MB or more"
            found.append(Advice(
                change.format(table["name"], table["device_rows"], wanted, saved / 1e6),
                "The table had {:,} rows at the end of the run".format(table["rows"]), 0.0))
    return found
