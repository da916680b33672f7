"""Functions that return ranks and numbers of ranks from the launcher's environment."""
from ascpipe.ranks import get_device_id, get_local_rank_size, get_rank_id, get_rank_size

__all__ = ["get_device_id", "get_local_rank_size", "get_rank_id", "get_rank_size"]
