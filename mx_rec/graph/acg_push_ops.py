"""Ops that are moved into the dataset, in older versions."""
from ascpipe.tf.modify.hooks import ACGPushOpsToDatasetHook

__all__ = ["ACGPushOpsToDatasetHook"]
