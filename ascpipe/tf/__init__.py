"""The Python API for programs on TensorFlow 1.15; ``mx_rec`` re-exports it under its own paths."""
from ascpipe.checkpoint.reader import trained_batches
from ascpipe.tf.background import wait_for_save
from ascpipe.tf.export import export_tables
from ascpipe.tf.gradient_norm import clip_by_global_norm, global_norm
from ascpipe.tf.lookup_concat import lookup_concat
from ascpipe.tf.saver import Saver
from ascpipe.tf.saver_hook import CheckpointSaverHook
from ascpipe.tf.serving import serving_tables
from ascpipe.tf.warm_starting import warm_start

__all__ = ["CheckpointSaverHook", "Saver", "clip_by_global_norm", "export_tables", "global_norm", "lookup_concat",
           "serving_tables", "trained_batches", "wait_for_save", "warm_start"]
