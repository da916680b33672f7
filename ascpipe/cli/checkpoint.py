"""Commands ``ascpipe checkpoint``, which need neither TensorFlow nor a daemon. The commands that read or write rows are
in ``checkpoint_rows.py``.
"""
import contextlib
import datetime
import json
import sys
from typing import TYPE_CHECKING, Any, Dict, List, Optional

import click

from ascpipe.cli import checkpoint_rows, checkpoint_tensorflow, near_verbs, printing
from ascpipe.logs import counted, one_line

if TYPE_CHECKING:
    from ascpipe.checkpoint.contents import Position, TableSpec
    from ascpipe.cli.found_checkpoints import Looked, Verdict

_FAILED = 1
_MIB = float(1 << 20)
_KINDS = ("constant", "uniform", "normal", "truncated normal", "pool")

_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("checkpoint", cls=near_verbs.Group, help="List, verify and show checkpoints, export and import rows, "
                                                      "and rename tables.",
             short_help="List, verify, show and convert checkpoints.")
def command() -> None:
    """Group of commands. Each command imports its modules when it is called."""


command.add_command(checkpoint_rows.export_command)
command.add_command(checkpoint_rows.import_command)
command.add_command(checkpoint_rows.rename_command)
command.add_command(checkpoint_rows.export_delta_command)
command.add_command(checkpoint_tensorflow.from_command)
command.add_command(checkpoint_tensorflow.to_command)


@command.command("list", help="List the checkpoints of a directory without reading rows.")
@click.argument("directory", metavar="DIR")
@_as_json
def list_checkpoints(directory: str, as_json: bool) -> None:
    """List all checkpoints. Unusable checkpoints are included, because they explain why a step is missing."""
    from ascpipe.cli.found_checkpoints import look_at_all

    found = look_at_all(directory)
    if as_json:
        click.echo(json.dumps([summary(looked) for looked in found], indent=2))
        return
    if not found:
        printing.show(["no checkpoint in {}".format(directory)], [])
        return
    columns = ["checkpoint", "kind", "step", "saved", "MiB", "tables", "rows", "state"]
    printing.show([], [("checkpoints of {}".format(directory), columns, [_list_row(looked) for looked in found])])
    printing.show([str(looked.problem) for looked in found if looked.problem is not None], [])


@command.command("verify", help="Verify the checksums of a checkpoint, DIR/BASE-STEP, or of all checkpoints in DIR. "
                                "The exit code is 1 if a checkpoint is damaged.")
@click.argument("path", metavar="DIR[/BASE-STEP]")
@_as_json
def verify(path: str, as_json: bool) -> None:
    """Print one line per checkpoint as soon as it is verified."""
    from ascpipe.cli.found_checkpoints import verdicts

    told = []
    for verdict in verdicts(path):
        told.append({**summary(verdict.looked), **_verdict_json(verdict)})
        if not as_json:
            click.echo(one_line(_verdict_line(verdict)))
    if as_json:
        click.echo(json.dumps(told, indent=2))
    if not all(one["verified"] for one in told):
        sys.exit(_FAILED)


@command.command("show", help="Show the content of a checkpoint, DIR/BASE-STEP, without reading rows.")
@click.argument("prefix", metavar="DIR/BASE-STEP")
@_as_json
def show(prefix: str, as_json: bool) -> None:
    """Show one checkpoint. The ancestors of a delta are not shown."""
    from ascpipe.checkpoint.errors import UnverifiedCheckpointError
    from ascpipe.cli.found_checkpoints import look_at

    looked = look_at(prefix)
    if looked.problem is not None:
        raise looked.problem
    if looked.records is None:
        raise UnverifiedCheckpointError(prefix)
    manifest = looked.records.manifest
    if as_json:
        click.echo(json.dumps(details(looked), indent=2))
        return
    printing.show(headlines(looked), [
        ("tables", ["table", "dim", "rows", "candidates", "deleted", "slots"],
         [[spec.name, str(spec.dim), str(spec.rows), str(spec.candidates), str(spec.deleted), _slots(spec)]
          for spec in manifest.tables]),
        ("policies", ["table", "access threshold", "faae coefficient", "eviction threshold", "time", "last ticket",
                      "initial rows", "seed"],
         [_policy_row(spec, manifest.position) for spec in manifest.tables]),
        *([("slices", ["rank", "table", "rows", "candidates", "deleted"],
            [[str(rank), spec.name, str(spec.rows), str(spec.candidates), str(spec.deleted)]
             for rank, content in enumerate(manifest.slices) for spec in content.tables])]
          if len(manifest.slices) > 1 else [])])


def summary(looked: "Looked") -> Dict[str, Any]:
    """Return the entry of a checkpoint in ``list --json``."""

    about: Dict[str, Any] = {
        "checkpoint": looked.place.prefix, "state": looked.state,
        "problem": None if looked.problem is None else str(looked.problem),
        "kind": None, "parent": None, "step": None, "saved_at": None, "bytes": None, "tables": None, "rows": None,
        "ranks": None}
    if looked.records is not None:
        manifest = looked.records.manifest
        parent = manifest.parent
        about.update(kind=looked.records.kind, parent=None if parent is None else parent.stem,
                     step=manifest.step, saved_at=_time(manifest.saved_at), bytes=looked.records.bytes,
                     tables=len(manifest.tables), rows=sum(spec.rows for spec in manifest.tables),
                     ranks=len(manifest.slices))
    return about


def details(looked: "Looked") -> Dict[str, Any]:
    """Return the output of ``show --json`` for a checkpoint with records."""
    about = summary(looked)
    if looked.records is None:
        return about
    manifest = looked.records.manifest
    position = manifest.position
    about.update(run_id=position.run_id, trained_batches=position.trained_batches, tables=[
        {**spec._asdict(), "slots": [dict(slot._asdict()) for slot in spec.slots],
         "initial": None if spec.initial is None else dict(spec.initial._asdict()),
         "policies": None if spec.policies is None else dict(spec.policies._asdict()),
         **position.tables[spec.name]._asdict(),
         "rows_of_ranks": [content.tables[place].rows for content in manifest.slices]}
        for place, spec in enumerate(manifest.tables)])
    return about


def headlines(looked: "Looked") -> List[str]:
    """Return the lines that ``show`` prints above the tables."""
    about = details(looked)
    step = "no step" if about["step"] is None else "step {}".format(about["step"])
    lines = ["{}: {}, {}, {}, saved {}, {:.1f} MiB".format(
        about["checkpoint"], about["state"], _kind(about), step, about["saved_at"] or "-", about["bytes"] / _MIB)]
    lines.append("run {}".format(about["run_id"]))
    trained = ["{} of stream {}".format(count, stream) for stream, count in about["trained_batches"].items()]
    lines.append("trained batches: {}".format(", ".join(trained) or "none"))
    return lines


def _list_row(looked: "Looked") -> List[str]:
    about = summary(looked)
    size = "-" if about["bytes"] is None else "{:.1f}".format(about["bytes"] / _MIB)
    return [looked.place.stem or "-", _kind(about), *("-" if value is None else str(value) for value in (
        about["step"], about["saved_at"], size, about["tables"], about["rows"], about["state"]))]


def _kind(about: Dict[str, Any]) -> str:
    return "-" if about["kind"] is None else "full" if about["parent"] is None else "delta upon {}".format(
        about["parent"])


def _verdict_json(verdict: "Verdict") -> Dict[str, Any]:
    problem = verdict.problem
    return {"verified": problem is None, "code": None if problem is None else problem.code,
            "problem": None if problem is None else str(problem), "file": getattr(problem, "file", None)}


def _verdict_line(verdict: "Verdict") -> str:
    about = summary(verdict.looked)
    if verdict.problem is not None:
        return "BAD  {}  {}".format(about["checkpoint"], verdict.problem)
    if about["bytes"] is None:
        return "ok   {}  no manifest: only sizes, and that no key occurs twice".format(about["checkpoint"])
    return "ok   {}  {}, {}, {}, {:.1f} MiB".format(
        about["checkpoint"], _kind(about), counted(about["tables"], "table"),
        counted(about["rows"], "row"), about["bytes"] / _MIB)


def _slots(spec: "TableSpec") -> str:
    return ", ".join("{} {}".format(slot.name, slot.width) for slot in spec.slots) or "-"


def _policy_row(spec: "TableSpec", position: "Position") -> List[str]:
    policies = spec.policies
    initial = spec.initial
    last = printing.ticket_text(position.tables[spec.name].last_ticket)
    first = [spec.name] + (["-"] * 4 if policies is None else [
        _threshold(policies.access_threshold), str(policies.faae_coefficient), _threshold(policies.eviction_threshold),
        str(policies.time)])
    return first + [last] + (["-"] * 2 if initial is None else [
        "{}, {:g}, {:g}".format(_KINDS[initial.kind], initial.a, initial.b), str(initial.seed)])


def _threshold(value: int) -> str:
    return "off" if value < 0 else str(value)


def _time(seconds: float) -> Optional[str]:
    """Return a time as a string in UTC, or None if the date is out of range."""
    with contextlib.suppress(ValueError, OverflowError, OSError):
        return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return None
