"""Ops that are moved into the dataset, in older versions."""
from ascpipe.tf.modify.slicers import ACGPushOpsToDatasetHook

__all__ = ["ACGPushOpsToDatasetHook"]
