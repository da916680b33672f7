"""Ops that are moved into the dataset, in older versions."""
from ascpipe.tf.later import ACGPushOpsToDatasetHook

__all__ = ["ACGPushOpsToDatasetHook"]
