"""Graph modification."""
from ascpipe.tf.modify.hooks import GraphModifierHook, LookupSubgraphSlicerHook, OrphanLookupKeySlicerHook

__all__ = ["GraphModifierHook", "LookupSubgraphSlicerHook", "OrphanLookupKeySlicerHook"]
