"""Hook of older versions, which selects ops that move into the dataset."""
from ascpipe.tf.modify.hooks import ACGPushOpsToDatasetHook

__all__ = ["ACGPushOpsToDatasetHook"]
