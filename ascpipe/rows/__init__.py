"""Export and import of checkpoint rows as files that other programs can read and write.

``docs/how-to/rows_in_and_out.md`` describes the files. The package needs neither TensorFlow nor a daemon.
"""
