"""Graph modification."""
from ascpipe.tf.later import GraphModifierHook, modify_graph_and_start_emb_cache

__all__ = ["GraphModifierHook", "modify_graph_and_start_emb_cache"]
