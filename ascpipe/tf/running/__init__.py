"""The running pipeline: its native side, its save thread and the state of this process."""
