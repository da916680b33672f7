"""The running pipeline with its native part and save thread, and the state of this process."""
