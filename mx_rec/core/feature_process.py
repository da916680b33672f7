"""Eviction of keys."""
from ascpipe.tf.program.table_changes import EvictHook

__all__ = ["EvictHook"]
