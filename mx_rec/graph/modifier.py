"""Graph modification."""
from ascpipe.tf.modify.hooks import GraphModifierHook
from ascpipe.tf.modify.modifier import modify_graph_and_start_emb_cache

__all__ = ["GraphModifierHook", "modify_graph_and_start_emb_cache"]
