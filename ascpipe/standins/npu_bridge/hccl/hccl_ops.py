"""Collectives."""
from ascpipe.tf.incumbent.collectives import (
    all_to_all_v,
    all_to_all_v_c,
    allgather,
    allreduce,
    broadcast,
    reduce_scatter,
)

__all__ = ["all_to_all_v", "all_to_all_v_c", "allgather", "allreduce", "broadcast", "reduce_scatter"]
