"""Command ``ascpipe inspect``, which shows counts, last batch and row location of keys in a running daemon's table."""
import json
from typing import Any, Dict, List, Optional, Tuple

import click

from ascpipe import eviction_log
from ascpipe.cli import printing
from ascpipe.cli.chosen import name_option
from ascpipe.cli.readers import table_reader
from ascpipe.layout.ticket import sequence_of
from ascpipe.shm.table_reader import KeyState

KEY = click.IntRange(-2**63, 2**63 - 1)
_OF_LOSSES = ("time", "batch", "last_seen", "why")  # fields of an eviction or deletion in --json
_COLUMNS = ["key", "known", "count", "row", "last batch", "timestamp", "pinned by"]


@click.command("inspect", help="Show the count, the last batch and the row location of each key, and the time of its "
                               "eviction or deletion (eviction_log).",
               short_help="Show counts and row locations of keys.",
               context_settings={"ignore_unknown_options": True})  # keys may be negative
@click.argument("table")
@click.argument("keys", metavar="KEY...", nargs=-1, required=True, type=KEY)
@name_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(table: str, keys: Tuple[int, ...], name: Optional[str], as_json: bool) -> None:
    """Print the state of keys. The command only reads shared memory, and takes no lock."""
    with table_reader(name, table) as (reader, entry):
        threshold = reader.access_threshold
        pins = reader.pins(keys)
        seen = [told(one, threshold, pins[one.key]) for one in reader.look(keys)]
    losses = eviction_log.newest(entry["eviction_log"], table, keys) if entry["eviction_log"] else {}
    for one in seen:
        loss = losses.get(one["key"])
        one["lost"] = None if loss is None else {name: getattr(loss, name) for name in _OF_LOSSES}
    if as_json:
        click.echo(json.dumps({"table": table, "access_threshold": None if threshold < 0 else threshold, "keys": seen},
                              indent=2))
        return
    newest = max(one["as_of"] for one in seen)
    lines = ["table {!r} after batch {}{}".format(
        table, printing.ticket_text(newest),
        "" if threshold < 0 else ", keys get a row after {} occurrences".format(threshold))]
    printing.show(lines, [("", _COLUMNS, [_row(one) for one in seen])])
    for key, loss in sorted(losses.items()):
        printing.show(["key {} was {} on {} after batch {}; it was last used at {}".format(
            key, loss.why, loss.time, loss.batch, loss.last_seen or "-")], [])


def told(seen: KeyState, threshold: int, pins: List[int]) -> Dict[str, Any]:
    """Return the ``--json`` output for a key.

    Args:
        seen: state of the key.
        threshold: number of occurrences at which a key gets a row, or -1 if admission is off.
        pins: tickets of the batches in flight that use the key.
    """
    places = (("device", seen.slot), ("host", seen.home), ("disk", seen.disk_slot))
    tier, place = next(((name, number) for name, number in places if number is not None), (None, None))
    return {
        "key": seen.key, "known": seen.is_known, "count": seen.occurrences,
        "admitted": seen.is_known and seen.occurrences >= threshold, "timestamp": seen.timestamp, "last": seen.last,
        "tier": tier, "place": place, "pinned_by": pins, "as_of": seen.as_of}


def _row(one: Dict[str, Any]) -> List[str]:
    place = "{} {}".format({"device": "device slot", "host": "host row", "disk": "disk slot"}[one["tier"]],
                           one["place"]) if one["tier"] else "none"
    if not one["known"]:
        return [str(one["key"]), "no", "-", "-", "-", "-", _batches(one["pinned_by"])]
    return [str(one["key"]), "yes", str(one["count"]), place, printing.ticket_text(one["last"]),
            str(one["timestamp"] or "-"), _batches(one["pinned_by"])]


def _batches(tickets: List[int]) -> str:
    """Format sorted tickets. Consecutive batches are shown as a range, as in ``"10685:117-120, 10685:125"``."""
    ranges: List[List[int]] = []
    for ticket in sorted(tickets):
        if ranges and ticket == ranges[-1][1] + 1:
            ranges[-1][1] = ticket
        else:
            ranges.append([ticket, ticket])
    return ", ".join(printing.ticket_text(first) + ("-{}".format(sequence_of(last)) if last > first else "")
                     for first, last in ranges) or "-"
