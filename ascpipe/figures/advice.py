"""Advice about a training run. `ascpipe tune` and reports show advice after a run, the dashboard during a run.

``speed_advice`` contains the rules that all three share. An expected gain is an upper limit, because it assumes that
the change removes all waiting time of one kind. The functions are pure.
"""
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from ascpipe.figures.rates import DISK, INPUT, KEY_WORKER, PEER, TABLE_WORKER

Figures = Mapping[str, Any]

_NOTICED = 0.1  # minimum share of the time that is worth a change
_FULL = 0.98  # share of used device rows of a full device
_NEARLY_FULL = 0.9  # share of used rows of a table that is nearly full
_LOW_HITS = 0.5  # device hit rate that is worth more device rows, even if steps do not wait
_MUCH_ROOM = 0.5  # share of used device rows below which a table has more device rows than it needs
_SLACK = 1.25  # safety factor of a recommended size
_LEAST_SAVED_BYTES = 1 << 20
_MOST_WORKERS = 16
_BUSY = 0.8  # readers are saturated if they are busy for at least this share of the time
_AHEAD = 0.5  # enough batches are ready if readers wait for at least this share of the time


class Advice(NamedTuple):
    """One recommended change.

    Attributes:
        change: what to change.
        reason: figures of the run that justify the change.
        gain: upper limit of the expected gain in steps/s, as a share; 0 if steps do not become faster, and None if the
            gain is unknown.
        setting: name and value of the setting of ascpipe to change, or None if the program must change.
    """

    change: str
    reason: str
    gain: Optional[float]
    setting: Optional[Tuple[str, int]] = None


def advice_of(figures: Figures) -> List[Advice]:
    """Return the changes that are recommended after a finished run, largest gain first.

    Args:
        figures: see ``speed_advice``.
    """
    return sorted([*speed_advice(figures), *_of_spare_rows(figures["tables"])], key=lambda one: -(one.gain or 0.0))


def speed_advice(figures: Figures) -> List[Advice]:
    """Return the changes that make steps faster, and changes that prevent the error of a full table.

    Args:
        figures: ``bottlenecks`` (name -> share of the run's time), ``tables`` (dicts with ``name``, ``rows``,
            ``device_rows``, ``home_rows``, ``disk_slots``, ``row_bytes``, ``device_hit_rate``, ``loads``, ``fetches``
            and ``save_waits``), ``reading`` (dict with ``busy`` and ``full``, or None), ``workers``, ``table_workers``
            and ``cores``.
    """
    shares: Dict[str, float] = figures["bottlenecks"]
    found = [*_of_workers(figures, shares), *input_advice(figures["reading"], shares.get(INPUT, 0.0)),
             *_of_devices(figures["tables"], shares.get(TABLE_WORKER, 0.0)),
             *_of_disks(figures["tables"], shares.get(DISK, 0.0)), *_of_full_tables(figures["tables"])]
    if shares.get(PEER, 0.0) >= _NOTICED:
        found.append(Advice("Give each rank an equal amount of work, or use a faster network",
                            "Steps waited for other ranks for {:.0f} % of the time".format(100 * shares[PEER]),
                            _gain(shares[PEER])))
    return sorted(found, key=lambda one: -(one.gain or 0.0))


def gain_text(advice: Advice) -> str:
    """Return a sentence that states the expected gain of a change."""
    if advice.gain is None:
        return "The gain is not known."
    if advice.gain <= 0:
        return "Steps do not become faster."
    return "Expected gain: at most {:.0f} % more steps per second.".format(100 * advice.gain)


def _gain(share: float) -> float:
    """Return the relative increase in steps/s if the step time decreases by ``share``. The returned increase is at most
    9 (900 %).
    """
    return 1 / max(0.1, 1 - share) - 1


def _of_workers(figures: Figures, shares: Mapping[str, float]) -> Iterator[Advice]:
    for name, setting, most in ((KEY_WORKER, "workers", _MOST_WORKERS),
                                (TABLE_WORKER, "table_workers", len(figures["tables"]))):
        share = shares.get(name, 0.0)
        count = figures[setting]
        if share < _NOTICED or count >= most:
            continue
        reason = "Steps waited for the {} for {:.0f} % of the time, and ".format(name, 100 * share)
        gain = _gain(share * count / (count + 1) if count > 1 else share / 2)
        cores = figures["cores"]
        if figures["workers"] + figures["table_workers"] + 1 < cores:
            yield Advice("Set {} to {}".format(setting, count + 1), reason + "{} cores may be used".format(cores), gain,
                         (setting, count + 1))
        else:
            yield Advice("Let the daemon use more than {} cores, and set {} to {}".format(cores, setting, count + 1),
                         reason + "training and workers already share these cores", gain)


def input_advice(reading: Optional[Mapping[str, float]], share: float) -> Iterator[Advice]:
    """Yield at most one change that makes the input faster.

    Args:
        reading: ``readers``, ``busy`` and ``full`` of ``reading_rates``, or None.
        share: share of the time in which the input was the bottleneck.
    """
    if share < _NOTICED:
        return
    text = "The input limited the speed for {:.0f} % of the time".format(100 * share)
    if reading is None:
        yield Advice("Read with asc.data.read, or add num_parallel_calls to dataset.map() and prefetch() to the end "
                     "of the dataset", text + ", and the program does not use asc.data.read", _gain(share))
    elif reading["busy"] >= _BUSY:
        yield Advice("Increase readers= of asc.data.read from {}".format(reading["readers"]),
                     text + "; its readers were busy for {:.0f} %".format(100 * reading["busy"]), _gain(share))
    elif reading["full"] >= _AHEAD:
        yield Advice("Speed up the stages after asc.data.read, or prefetch() more batches after them", text + "; "
                     "readers waited for {:.0f} % because enough batches were ready".format(100 * reading["full"]),
                     _gain(share))
    else:
        yield Advice("Increase read_ahead= of asc.data.read", text + "; its readers were busy for {:.0f} % only".format(
            100 * reading["busy"]), _gain(share))


def _host_rows(table: Figures) -> int:
    """Return ``host_vocabulary_size``. For a table with rows on disk, ``home_rows`` also includes the device rows."""
    return int(table["home_rows"] - (table["device_rows"] if table["disk_slots"] else 0))


def _of_devices(tables: List[Figures], waited: float) -> Iterator[Advice]:
    """Recommend more device rows. The expected gain is divided among tables in proportion to the number of rows that
    each table swaps in.
    """
    loads = sum(table["loads"] for table in tables) or 1
    for table in tables:
        rate = table["device_hit_rate"]
        host = _host_rows(table)
        is_full = table["home_rows"] and min(table["rows"], table["device_rows"]) >= _FULL * table["device_rows"]
        size = min(table["rows"], host)
        if rate is None or not is_full or not table["loads"] or size <= table["device_rows"]:
            continue
        if waited < _NOTICED and rate >= _LOW_HITS:
            continue
        more = "" if table["rows"] <= host else (
            ", the value of host_vocabulary_size; to exceed it, increase both")
        yield Advice(
            "Increase device_vocabulary_size of {!r} from {:,} to up to {:,}{}, which takes {:,.1f} MB or more".format(
                table["name"], table["device_rows"], size, more,
                (size - table["device_rows"]) * table["row_bytes"] / 1e6),
            "{:.1f} % of its keys were on the device, and {:,} rows were swapped in".format(
                100 * rate, table["loads"]),
            _gain(waited * table["loads"] / loads) if waited >= _NOTICED else None)


def _of_disks(tables: List[Figures], waited: float) -> Iterator[Advice]:
    """Recommend more host rows, or a larger log of saves. The expected gain is divided among tables in proportion to
    the number of rows that each table reads from disk.
    """
    for table in tables:
        if table["save_waits"]:
            yield Advice("Increase save_log_bytes, or save to a faster disk", "Steps waited {} for a save of table "
                         "{!r}".format(_times(table["save_waits"]), table["name"]), None)
    if waited < _NOTICED:
        return
    fetches = sum(table["fetches"] for table in tables)
    for table in tables:
        host = _host_rows(table)
        size = table["rows"] - table["device_rows"]
        if table["disk_slots"] and table["fetches"] and size > host:
            yield Advice(
                "Increase host_vocabulary_size of {!r} from {:,} to up to {:,}, which takes {:,.1f} MB or more".format(
                    table["name"], host, size, (size - host) * table["row_bytes"] / 1e6),
                "Steps waited for disks for {:.0f} % of the time, and {:,} rows were read from disk".format(
                    100 * waited, table["fetches"]), _gain(waited * table["fetches"] / fetches))
    if any(table["disk_slots"] for table in tables):
        yield Advice("Use faster disks, or more of them in ssd_data_path",
                     "Steps waited for disks for {:.0f} % of the time".format(100 * waited), None)


def _of_full_tables(tables: List[Figures]) -> Iterator[Advice]:
    for table in tables:
        (setting, limit) = next((name, table[field]) for name, field in (
            ("ssd_vocabulary_size", "disk_slots"), ("host_vocabulary_size", "home_rows"),
            ("device_vocabulary_size", "device_rows")) if table[field] or field == "device_rows")
        if table["rows"] >= _NEARLY_FULL * limit:
            yield Advice("Increase {} of {!r}, or evict old keys, if more keys may occur".format(
                setting, table["name"]),
                "Table {!r} is nearly full: {:,} of {:,} rows are in use".format(
                    table["name"], table["rows"], limit), 0.0)


def _of_spare_rows(tables: List[Figures]) -> Iterator[Advice]:
    for table in tables:
        wanted = int(_SLACK * table["rows"])
        saved = (table["device_rows"] - wanted) * table["row_bytes"]
        if table["rows"] < _MUCH_ROOM * table["device_rows"] and saved >= _LEAST_SAVED_BYTES:
            yield Advice(
                "Reduce device_vocabulary_size of {!r} from {:,} to {:,}, which saves {:,.1f} MB or more".format(
                    table["name"], table["device_rows"], wanted, saved / 1e6),
                "The table had {:,} rows at the end of the run".format(table["rows"]), 0.0)


def _times(count: int) -> str:
    return "once" if count == 1 else "{} times".format(count)
