"""Ops that are moved into the dataset, in older versions."""
from ascpipe.tf.modify.slicers import LookupSubgraphSlicerHook as ACGPushOpsToDatasetHook

__all__ = ["ACGPushOpsToDatasetHook"]
