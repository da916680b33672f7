"""Thread of a rank other than 0, which executes requests of rank 0 to save, load or change the rank's shards of tables.
"""
import contextlib
import functools
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ascpipe.checkpoint.contents import Link, Position
from ascpipe.checkpoint.errors import NotSavedError
from ascpipe.checkpoint.reader import open_checkpoint
from ascpipe.checkpoint.slice_writer import SliceWriter
from ascpipe.tf.checkpoints import deltas, loading, positions, pretrained, saving
from ascpipe.tf.checkpoints.rank_rows import RowRequests
from ascpipe.tf.checkpoints.save_progress import SaveProgress
from ascpipe.tf.running import asking
from ascpipe.tf.running.hold_between_steps import TableState, hold
from ascpipe.tf.running.pipeline import Pipeline, Tip
from ascpipe.tf.running.shapes import KnownTable

CUT = "cut"  #: name of the request for a threshold or an eviction, which AscCut sends


def follow(pipeline: Pipeline) -> asking.Follower:
    """Start and return the thread that executes requests of rank 0 on this rank."""
    saves = _Saves(pipeline)
    return asking.Follower({
        saving.SAVE: saves.save, asking.ENDED: saves.end, loading.LOAD: functools.partial(_load, pipeline), CUT: _cut,
        pretrained.LOAD_FILES: functools.partial(pretrained.follow, pipeline), **RowRequests(pipeline).handlers()},
        pipeline.wait_timeout_s)


class _Saves:
    """Handlers of requests to save this rank's slice of a checkpoint."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._asked: Dict[int, str] = {}  # request number -> prefix of the checkpoint, until the save ends
        self._written: Dict[int, Tuple[str, Tip]] = {}  # request number -> key and value for ``Pipeline.tips``

    def save(self, number: int, asked: Dict[str, Any]) -> Optional[str]:
        """Write this rank's slice of a checkpoint, immediately or in the background.

        Return the digest of the slice's record, or None for a background save.
        """
        self._asked[number] = saving.prefix_of(asked["directory"], asked["base"], asked["step"])
        pipeline = self._pipeline
        pipeline.background.settle()  # a save that rank 0 has aborted may still be running
        known = [pipeline.tables[name] for name in asked["tables"]]
        with contextlib.ExitStack() as undo:
            writer = undo.enter_context(SliceWriter(
                asked["directory"], asked["base"], asked["step"], asked["staging"], pipeline.rank, pipeline.ranks,
                SaveProgress(asked["base"])))
            with hold(alone=False) as held:
                tables = saving.held_tables(held, known)
                here = positions.position(pipeline, held, tables, asked["rings"])
                tip = self._tip(asked)
                if not asked["background"]:
                    return self._write(number, asked, writer, known, _Held(tables, tip, here))
                saving.require_memory(pipeline, tables, writer.prefix)
                frozen = undo.enter_context(saving.freeze(pipeline, held, known, tables))
            rest = undo.pop_all()

        def work() -> None:
            try:
                with asking.working(pipeline.ranks), rest:
                    digest = self._write(number, asked, writer, known, _Held(frozen.tables(), tip, here))
            except Exception as error:
                asking.refuse(number, error)
                raise
            asking.answer(number, digest)

        pipeline.background.begin(writer.prefix, work)
        return None

    def end(self, number: int, told: Dict[str, Any]) -> Optional[str]:
        """Record the save if rank 0 has committed the checkpoint.

        Return the prefix of the checkpoint, or None if the request is unknown.
        """
        written = self._written.pop(number, None)
        if told["done"] and written is not None:
            name, tip = written
            saving.note_saved(self._pipeline, name, tip._replace(link=Link(*told["link"])))
        return self._asked.pop(number, None)

    def _tip(self, asked: Mapping[str, Any]) -> Optional[Tip]:
        """Return the parent of the requested delta, or None if a full checkpoint was requested.

        Raises:
            NotSavedError: this rank does not have that save.
        """
        if asked["parent"] is None:
            return None
        tip = self._pipeline.tips.get(deltas.name_of(asked["directory"], asked["base"]))
        if tip is None or tip.link.stem != asked["parent"]:
            raise NotSavedError(asked["base"], "this rank does not have the save {}, which is the base of the delta"
                                .format(asked["parent"]), 0, 0, "Save a full checkpoint.")
        return tip

    def _write(self, number: int, asked: Mapping[str, Any], writer: SliceWriter, known: List[KnownTable],
               held: "_Held") -> str:
        since, changes = deltas.changes_since(held.tip, held.tables, asked["threshold"])
        if since is not held.tip:
            raise NotSavedError(writer.prefix, "the base checkpoint of the delta cannot be read", 0, 0,
                                "Save a full checkpoint.")
        specs = saving.specs_of(self._pipeline, known, held.tables, changes)
        writer.begin_tables(specs, delta=since is not None)
        saving.write_tables(writer, self._pipeline, specs, held.tables, changes)
        digest = writer.finish(held.here)
        tip = deltas.next_tip(self._pipeline, since, writer.prefix, Link("", ""), held.here, held.tables)
        if number in self._asked:  # rank 0 has not aborted the save
            self._written[number] = deltas.name_of(asked["directory"], asked["base"]), tip
        return digest


class _Held(NamedTuple):
    """State of the tables and training position during the hold of a save.

    ``tip`` is the parent of a delta, or None.
    """

    tables: Dict[str, TableState]
    tip: Optional[Tip]
    here: Position


def _load(pipeline: Pipeline, number: int, asked: Mapping[str, Any]) -> str:
    with contextlib.ExitStack() as opened:
        checkpoints = {prefix: opened.enter_context(open_checkpoint(prefix, allow_unverified=asked["allow_unverified"]))
                       for prefix in sorted({prefix for prefix, _ in asked["sources"].values()})}
        loads = []
        for name, (prefix, saved_name) in asked["sources"].items():
            table = pipeline.tables[name]
            loads.append(
                loading.begun(checkpoints[prefix], table.shape, table.slots, saved_name,
                              with_slots=name in asked["with_slots"]) if asked["begins"] else
                loading.restored(checkpoints[prefix], table.shape, table.slots, table.key_dtype.name,
                                 asked["allow_missing"], saved_name=saved_name))
        with hold(alone=True) as held:
            pipeline.loaded = None
            for table in (pipeline.tables[name] for name in asked["sources"]):
                if not table.shape.home_rows:  # otherwise the slots are in home rows
                    held.create_slots(table.shape.number, table.slots)
            loading.load_tables(pipeline, held, loads)
            if not asked["begins"]:
                for checkpoint in checkpoints.values():
                    loading.note_loaded(pipeline, held, checkpoint, asked["rings"])
    return ""


def _cut(number: int, asked: Mapping[str, Any]) -> str:
    with hold(alone=True) as held:
        held.cut(asked["table"], asked["kind"], asked["argument"])
    return ""
