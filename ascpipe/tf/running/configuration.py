"""Arguments of ``init``, with default values and rules."""
import dataclasses
from typing import Any, Dict, List, Optional, Tuple

from ascpipe import ranks
from ascpipe.errors import ArgumentError, EnvironmentVariableError
from ascpipe.tf.validation import Integer, Rule, Text, boolean, check_all, did_you_mean

DEFAULT_HASHTABLE_COLLECTION = "ASCEND_GLOBAL_HASHTABLE_COLLECTION"


def _checked(default: Any, rule: Rule) -> Any:
    return dataclasses.field(default=default, metadata={"rule": rule})


@dataclasses.dataclass(eq=False)
class Configuration:
    """The arguments of ``init``. ``checked_configuration`` creates an object.

    Attributes:
        max_steps, train_steps, eval_steps, save_steps: arguments without effect.
        train_interval: older name of ``train_steps``.
        if_load: True if the program will restore a checkpoint.
        use_dynamic: False if lookups require a ``send_count``.
        use_dynamic_expansion: True if all tables are expansion tables.
        is_incremental_checkpoint: True if hooks save a full checkpoint every ``save_checkpoint_due_time`` seconds and a
            delta every ``save_delta_checkpoints_secs`` seconds.
        recent_key_count_threshold: minimum number of occurrences since the last save for a key to be included in a
            delta.
        restore_model_version: step that the first restore uses, or None.
        daemon: name of a running daemon, or None for the default choice.
        rank_id, rank_size: rank of this process, and number of ranks.
        bind_cpu, use_lccl, use_hot, use_mpi, prefetch_batch_number: arguments without effect.
        hashtable_collection: graph collection of table variables. It is not an argument of ``init``.
        use_static: negation of ``use_dynamic``.
    """

    max_steps: int = _checked(-1, Integer(-1))
    train_steps: int = _checked(-1, Integer(-1))
    train_interval: int = _checked(-1, Integer(-1))
    eval_steps: int = _checked(-1, Integer(-1))
    save_steps: int = _checked(-1, Integer(-1))
    if_load: bool = _checked(False, boolean())
    use_dynamic: bool = _checked(True, boolean())
    use_dynamic_expansion: bool = _checked(False, boolean())
    bind_cpu: bool = _checked(True, boolean())
    use_lccl: bool = _checked(False, boolean())
    is_incremental_checkpoint: bool = _checked(False, boolean())
    save_checkpoint_due_time: int = _checked(0, Integer(1, optional=True))
    save_delta_checkpoints_secs: int = _checked(0, Integer(1, optional=True))
    restore_model_version: Optional[int] = _checked(None, Integer(0, optional=True))
    recent_key_count_threshold: int = _checked(0, Integer(0))
    use_mpi: bool = _checked(True, boolean())
    use_hot: bool = _checked(True, boolean())
    prefetch_batch_number: int = _checked(1, Integer(1))
    rank_id: int = _checked(0, Integer(0))
    rank_size: int = _checked(1, Integer(1, 4095))
    daemon: Optional[str] = _checked(None, Text(1, 48, optional=True))
    hashtable_collection: str = dataclasses.field(default=DEFAULT_HASHTABLE_COLLECTION, init=False)
    use_static: bool = dataclasses.field(default=False, init=False)

    def __post_init__(self) -> None:
        self.use_static = not self.use_dynamic


_RULES: Dict[str, Rule] = {field.name: field.metadata["rule"] for field in dataclasses.fields(Configuration)
                           if field.init}
_UNCHECKED = ("use_shm_swap",)  #: arguments of older versions that are neither checked nor used


def checked_configuration(given: Dict[str, Any]) -> Configuration:
    """Return the configuration for the arguments of ``init``. Arguments that are None get the default values.

    Raises:
        ValueError: an argument has the wrong type or is out of range, or ``max_steps``, ``train_steps`` and
            ``eval_steps`` are all 0.
    """
    check_all(_RULES, given)
    lacking = [name for name in ("save_checkpoint_due_time", "save_delta_checkpoints_secs") if given.get(name) is None]
    if given.get("is_incremental_checkpoint", False) and lacking:
        raise ArgumentError("asc.init(): is_incremental_checkpoint=True requires {}, in seconds".format(
            " and ".join(lacking)))
    if all(given.get(name, -1) == 0 for name in ("max_steps", "train_steps", "eval_steps")):
        raise ArgumentError("asc.init(): max_steps, train_steps and eval_steps are all 0, so nothing would be done. "
                            "Omit them, or pass -1 for no limit")
    values = {name: value for name, value in given.items() if name in _RULES and value is not None}
    values.setdefault("train_steps", values.get("train_interval", -1))
    values["rank_id"], values["rank_size"] = _ranks(values.get("rank_id", 0), values.get("rank_size", 1))
    return Configuration(**values)


def unknown_arguments(given: Dict[str, Any]) -> List[str]:
    """Return the names of unknown arguments of ``init``. A name may be followed by a suggestion."""
    return sorted(name + did_you_mean(name, _RULES, " ({})") for name in given
                  if name not in _RULES and name not in _UNCHECKED)


def _ranks(rank: int, size: int) -> Tuple[int, int]:
    """Return the rank and the number of ranks. The values of a launcher override the arguments."""
    launcher = ranks.launcher() if ranks.launched() else None
    if launcher is not None:
        rank = ranks.get_rank_id()
        size = ranks.get_rank_size()
    if rank < size:
        return rank, size
    text = "Rank {} is not below the number of ranks, {}. ".format(rank, size)
    if launcher is None:
        raise ArgumentError(text + "Pass a smaller rank_id, or a larger rank_size")
    raise EnvironmentVariableError(text + "Correct {} or {}".format(launcher.rank, launcher.size))
