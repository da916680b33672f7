"""Feature eviction."""
from ascpipe.tf.later import EvictHook

__all__ = ["EvictHook"]
