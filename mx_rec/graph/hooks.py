"""Hooks that select more ops or ids to move into the dataset."""
from ascpipe.tf.modify.hooks import LookupSubgraphSlicerHook, OrphanLookupKeySlicerHook

__all__ = ["LookupSubgraphSlicerHook", "OrphanLookupKeySlicerHook"]
