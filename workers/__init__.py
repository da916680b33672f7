"""The worker processes of the daemon, one module each; imported as ``ascpipe.workers``."""
