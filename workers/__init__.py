"""Worker processes of the daemon. The import name of this package is ``ascpipe.workers``."""
