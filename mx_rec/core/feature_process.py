"""Feature eviction."""
from ascpipe.tf.program.eviction import EvictHook

__all__ = ["EvictHook"]
