"""What ``ranked.py`` trains."""
from typing import Any, Dict, NamedTuple, Optional, Tuple

from ascpipe import ranks

RANK, RANKS = (ranks.get_rank_id(), ranks.get_rank_size()) if ranks.launched() else (0, 1)


class Feature(NamedTuple):
    """Ids [lines, width] of a batch, and the table they are looked up in."""

    table: str
    width: int = 2
    grad: bool = True
    ragged: bool = False  #: a SparseTensor; every third id is missing
    combiner: str = ""  #: of one that is ragged: its rows are combined, with weights but in a "sum"


class Table(NamedTuple):
    """A table; sizes are those of all ranks together."""

    dim: int = 8
    device: int = 1000
    host: int = 0
    padding: Tuple[int, ...] = ()
    is_dp: bool = False
    threshold: Optional[int] = None  #: occurrences after which a key is admitted
    disk: int = 0  #: rows more, on disk: in the run's folder


class Case(NamedTuple):
    """What to train.

    Attributes:
        tables, features: by name, each as a dictionary.
        optimizer: of the tables.
        average: whether ranks average gradients of rows, or add them up.
        keys: ids are in [-keys // 2, keys - keys // 2), or in [0, keys) of tables with padding keys.
        batch: lines of one batch of all ranks.
        evaluate_each: steps between two evaluations; 0: only one, at the end.
        evaluates_beside: evaluations in a thread of their own, while the main thread trains; of FeatureSpecs.
        modify: graph modification.
        static: fixed sizes.
        send_count: with static ones, of each lookup; 0: the ids of a batch.
        expansion: dynamic expansion mode; its optimizers are those by address.
        fault: of a rank, at a step: kind, rank (-1: all), step.
        saves: after which steps checkpoints are saved, as FOLDER/saved/model.ckpt-STEP.
        save: more arguments of ``Saver.save``.
        rank_0_saves: only rank 0 calls it, and restores, as Horovod's documentation advises.
        cut: of a rank, the file operation of its saves before which it is killed: rank, at.
        restore: checkpoint that training goes on from, after as many batches.
        thresholds: by step, the access threshold that is set after it.
        trace: file of the lines to train, ``ranked_lines.Lines``; else they are generated.
        kills: seed of the random moments at which workers of each rank are killed; 0: none are.
        evict_each: steps after which keys are evicted that were not used for as many.
        edit_each: steps after which rank 0 reads, sets and deletes rows, ``ranked_edits.edit``.
        join: how rows become the layer that the model reads: "sums" of the ids of a line, or all of them side by side
            by "concat"; "apart": by "concat", and each step reads the lookups, too.
        cancelled: tell the keys whose gradient cancels, ``ranked_terms.Cancelled``; without graph modification.
    """

    tables: Dict[str, Any]
    features: Dict[str, Any]
    optimizer: str = "adagrad"
    average: bool = True
    steps: int = 60
    batch: int = 24
    keys: int = 240
    evaluate_each: int = 0
    evaluates_beside: int = 0
    modify: bool = False
    static: bool = False
    send_count: int = 0
    expansion: bool = False
    fault: Dict[str, Any] = {}
    saves: Tuple[int, ...] = ()
    save: Dict[str, Any] = {}
    rank_0_saves: bool = False
    cut: Dict[str, int] = {}
    restore: str = ""
    thresholds: Dict[str, int] = {}
    evict_each: int = 0
    edit_each: int = 0
    trace: str = ""
    kills: int = 0
    join: str = "sums"
    cancelled: bool = False

    @property
    def first(self) -> int:
        """Batches that are trained already."""
        return int(self.restore.rpartition("-")[2]) if self.restore else 0

    def fails(self, *kinds: str) -> bool:
        """Whether this rank has a fault of some kind."""
        return self.fault.get("kind") in kinds and self.fault["rank"] in (RANK, -1)
