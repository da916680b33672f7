"""Graph modification."""
from ascpipe.tf.modify.hooks import GraphModifierHook
from ascpipe.tf.modify.slicers import LookupSubgraphSlicerHook, OrphanLookupKeySlicerHook

__all__ = ["GraphModifierHook", "LookupSubgraphSlicerHook", "OrphanLookupKeySlicerHook"]
