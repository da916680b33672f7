"""What is moved into the dataset with the ids."""
from ascpipe.tf.modify.slicers import LookupSubgraphSlicerHook, OrphanLookupKeySlicerHook

__all__ = ["LookupSubgraphSlicerHook", "OrphanLookupKeySlicerHook"]
