"""Feature eviction."""
from ascpipe.tf.eviction import EvictHook

__all__ = ["EvictHook"]
