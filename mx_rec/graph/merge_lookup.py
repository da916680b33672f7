"""Several lookups of one table."""
from ascpipe.tf.lookup import do_merge_lookup

__all__ = ["do_merge_lookup"]
