"""Hook of older versions of Rec SDK that selects ops to move into the dataset."""
from ascpipe.tf.modify.hooks import ACGPushOpsToDatasetHook

__all__ = ["ACGPushOpsToDatasetHook"]
