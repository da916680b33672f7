"""The running pipeline with its native library and save thread, and the state of this process."""
