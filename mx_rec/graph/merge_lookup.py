"""Several lookups of one table."""
from ascpipe.tf.modify.merging import do_merge_lookup

__all__ = ["do_merge_lookup"]
