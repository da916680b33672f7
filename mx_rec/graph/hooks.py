"""Hooks that select tensors that move into the dataset with the ids."""
from ascpipe.tf.modify.hooks import LookupSubgraphSlicerHook, OrphanLookupKeySlicerHook

__all__ = ["LookupSubgraphSlicerHook", "OrphanLookupKeySlicerHook"]
