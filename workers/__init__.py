"""Worker processes of the daemon. This package is imported as ``ascpipe.workers``."""
