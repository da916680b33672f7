"""Logger for programs."""
from ascpipe.program_log import program_logger

logger = program_logger()

__all__ = ["logger"]
