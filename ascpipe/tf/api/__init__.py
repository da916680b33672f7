"""Public functions of ``ascpipe.tf`` for the life cycle, tables, lookups and feature columns."""
