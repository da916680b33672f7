"""Merge of several lookups of one table."""
from ascpipe.tf.program.tensor_lookups import do_merge_lookup

__all__ = ["do_merge_lookup"]
