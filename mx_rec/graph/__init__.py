"""Graph modification."""
from ascpipe.tf.modify.hooks import GraphModifierHook, LookupSubgraphSlicerHook, OrphanLookupKeySlicerHook
from ascpipe.tf.modify.modifier import modify_graph_and_start_emb_cache

__all__ = ["GraphModifierHook", "LookupSubgraphSlicerHook", "OrphanLookupKeySlicerHook",
           "modify_graph_and_start_emb_cache"]
