"""Functions that read the rank and the number of ranks from the launcher's environment variables."""
from ascpipe.ranks import get_device_id, get_local_rank_size, get_rank_id, get_rank_size

__all__ = ["get_device_id", "get_local_rank_size", "get_rank_id", "get_rank_size"]
