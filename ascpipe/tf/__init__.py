"""The Python API for programs on TensorFlow 1.15; ``mx_rec`` re-exports it under its own paths."""
from ascpipe.checkpoint.reader import trained_batches
from ascpipe.tf.checkpoints.export import export_tables
from ascpipe.tf.checkpoints.saver import Saver
from ascpipe.tf.checkpoints.saver_hook import CheckpointSaverHook
from ascpipe.tf.checkpoints.saving import wait_for_save
from ascpipe.tf.checkpoints.warm_starting import warm_start
from ascpipe.tf.graph import lookup_gradients  # noqa: F401  registers the gradient of lookups
from ascpipe.tf.optimizers.gradient_norm import clip_by_global_norm, global_norm
from ascpipe.tf.program.dense_variables import (
    BroadcastGlobalVariablesHook,
    DistributedOptimizer,
    broadcast_global_variables,
)
from ascpipe.tf.program.lookup_concat import lookup_concat
from ascpipe.tf.program.summary_hook import SummaryHook
from ascpipe.tf.serving.served_tables import serving_tables

__all__ = ["BroadcastGlobalVariablesHook", "CheckpointSaverHook", "DistributedOptimizer", "Saver", "SummaryHook",
           "broadcast_global_variables", "clip_by_global_norm", "export_tables", "global_norm", "lookup_concat",
           "serving_tables", "trained_batches", "wait_for_save", "warm_start"]
