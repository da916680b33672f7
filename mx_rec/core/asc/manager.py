"""Start of the pipeline."""
from ascpipe.tf.starting.start_pipeline import start_asc_pipeline

__all__ = ["start_asc_pipeline"]
