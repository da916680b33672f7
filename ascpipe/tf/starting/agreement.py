"""Checks that a further graph has the tables of the running pipeline as the graphs before have them."""
from typing import Any, Collection, Dict, List, Sequence, Tuple

from ascpipe.checkpoint.contents import SlotSpec
from ascpipe.layout.words import TRAIN
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.optimizer_slots import OptimizerSlot
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.running.shapes import KnownTable

#: (what it is, as the pipeline has it, as the graph has it)
Fact = Tuple[str, Any, Any]


def known_tables(state: GraphState) -> Dict[str, KnownTable]:
    """The tables of a graph whose optimizer slots are known, by name, in order of creation."""
    return {name: KnownTable(table.shape, table.key_dtype, table.is_save, _slot_specs(state.slots.get(name, ())),
                             state.thresholds.of(name))
            for name, table in state.tables.items()}


def require_agreement(known: Dict[str, KnownTable], trained: Collection[int], state: GraphState) -> None:
    """Raise ``ValueError``, naming the table and what differs, unless a graph's tables go with those of the pipeline.

    Args:
        trained: numbers of the tables that were trained before.
        state: of the graph; tables that are not known get the numbers after those that are.
    """
    news = [table.shape.number for name, table in state.tables.items() if name not in known]
    if news != list(range(len(known), len(known) + len(news))):
        raise ValueError("the tables {} were created while start_asc_pipeline() of another graph was yet to come, and "
                         "now have numbers of its tables: start each graph before the tables of the next are created"
                         .format(", ".join(repr(name) for name in state.tables if name not in known)))
    for name, table in state.tables.items():
        if name not in known:
            continue
        facts = _facts(known[name], table)
        if (name, TRAIN) in state.lookups and known[name].shape.number in trained:
            facts += _training_facts(known[name], state, table)
        for what, before, now in facts:
            if before != now:
                raise ValueError("table {!r}: the graph whose pipeline runs has {} {}, and this one {}; a table is the "
                                 "same in all graphs".format(name, what, before, now))


def _facts(known: KnownTable, table: Table) -> List[Fact]:
    before, now = known.shape, table.shape
    return [("dim", before.dim, now.dim),
            ("key_dtype", known.key_dtype.name, table.key_dtype.name),
            ("device_vocabulary_size", before.device_rows, now.device_rows),
            ("host_vocabulary_size", before.home_rows, now.home_rows),
            ("the number (tables are created in one order in all graphs that are built before start_asc_pipeline())",
             before.number, now.number)]


def _training_facts(known: KnownTable, state: GraphState, table: Table) -> List[Fact]:
    """Facts that matter where rows are trained, not where they are only read. A seed may come from a checkpoint."""
    before, now = known.shape, table.shape
    return [("the optimizer slots", known.slots, _slot_specs(state.slots.get(table.table_name, ()))),
            ("padding_keys", before.padding_keys, now.padding_keys),
            ("initial rows (kind, parameters, init_param)", (before.kind, before.a, before.b, before.scale),
             (now.kind, now.a, now.b, now.scale)),
            ("thresholds", known.thresholds, state.thresholds.of(table.table_name))]


def _slot_specs(slots: Sequence[OptimizerSlot]) -> Tuple[SlotSpec, ...]:
    return tuple(SlotSpec(slot.name, slot.width, slot.initial) for slot in slots)
