"""Admission and eviction of a table: its features and lookups say when, and must agree."""
from typing import Any, Dict, Optional

from ascpipe.tf.running.shapes import Thresholds
from ascpipe.tf.validation import Integer, check_all

OFF = Thresholds()  #: says nothing: neither admission nor eviction


def thresholds(access: Optional[int], eviction: Optional[int], coefficient: Optional[int]) -> Thresholds:
    """Thresholds from arguments; None stands for an argument that was left out."""
    return Thresholds(-1 if access is None else int(access), -1 if eviction is None else int(eviction),
                      1 if coefficient is None else int(coefficient))


def checked_thresholds(config: Optional[Dict[str, Any]]) -> Thresholds:
    """Thresholds from a lookup's ``access_and_evict_config``. Raises ``ValueError`` for one out of range."""
    config = config or {}
    check_all({"access_threshold": Integer(-1, optional=True), "eviction_threshold": Integer(-1, optional=True),
               "faae_coefficient": Integer(1, optional=True)}, config)
    return thresholds(config.get("access_threshold"), config.get("eviction_threshold"), config.get("faae_coefficient"))


class TableThresholds:
    """The thresholds of each table of a graph. A feature or lookup without any leaves them as they are."""

    def __init__(self) -> None:
        self._said: Dict[str, Thresholds] = {}
        self._by: Dict[str, str] = {}

    def note(self, table_name: str, said: Thresholds, by: str) -> None:
        """Remember what ``by`` says. Raises ``ValueError`` where another feature or lookup said something else."""
        if said == OFF:
            return
        before = self._said.setdefault(table_name, said)
        self._by.setdefault(table_name, by)
        require_same(table_name, before, self._by[table_name], said, by)

    def of(self, table_name: str) -> Thresholds:
        """The thresholds of a table."""
        return self._said.get(table_name, OFF)


def require_same(table_name: str, ours: Thresholds, by_us: str, theirs: Thresholds, by_them: str) -> None:
    """Raise ``ValueError`` where two features or lookups say different things of one table."""
    if ours != theirs:
        raise ValueError("{} and {} of table {!r} have different thresholds: {} and {}; a table has one "
                         "access_threshold, eviction_threshold and faae_coefficient".format(
                             by_us, by_them, table_name, _text(ours), _text(theirs)))


def _text(said: Thresholds) -> str:
    return "access_threshold={}, eviction_threshold={}, faae_coefficient={}".format(*said)
