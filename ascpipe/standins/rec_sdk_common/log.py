"""The logger of programs."""
import logging

logger = logging.getLogger("mx_rec")

__all__ = ["logger"]
