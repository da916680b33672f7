"""Rows of checkpoints as files that other programs read and write.

``docs/how-to/rows_in_and_out.md`` describes the files. The package needs neither TensorFlow nor a daemon.
"""
