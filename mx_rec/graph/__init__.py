"""Graph modification."""
from ascpipe.tf.later import GraphModifierHook, LookupSubgraphSlicerHook, OrphanLookupKeySlicerHook

__all__ = ["GraphModifierHook", "LookupSubgraphSlicerHook", "OrphanLookupKeySlicerHook"]
