"""Hooks that select tensors which are moved into the dataset together with the ids."""
from ascpipe.tf.modify.hooks import LookupSubgraphSlicerHook, OrphanLookupKeySlicerHook

__all__ = ["LookupSubgraphSlicerHook", "OrphanLookupKeySlicerHook"]
