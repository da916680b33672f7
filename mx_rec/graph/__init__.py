"""Graph modification."""
from typing import NoReturn

from ascpipe.tf.modify.hooks import GraphModifierHook
from ascpipe.tf.modify.slicers import LookupSubgraphSlicerHook, OrphanLookupKeySlicerHook
from mx_rec import _missing

__all__ = ["GraphModifierHook", "LookupSubgraphSlicerHook", "OrphanLookupKeySlicerHook"]


def __getattr__(name: str) -> NoReturn:
    _missing.refuse(__name__, name)
