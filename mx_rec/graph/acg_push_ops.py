"""Hook of older versions. It selects ops that are moved into the dataset."""
from ascpipe.tf.modify.hooks import ACGPushOpsToDatasetHook

__all__ = ["ACGPushOpsToDatasetHook"]
