"""Ranks, as the MPI launcher says."""
from ascpipe.tf.running.mpi_ranks import get_device_id, get_local_rank_size, get_rank_id, get_rank_size

__all__ = ["get_device_id", "get_local_rank_size", "get_rank_id", "get_rank_size"]
