"""Worker processes of the daemon, one module each; started with ``python -m``."""
