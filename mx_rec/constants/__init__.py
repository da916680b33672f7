"""Names of graph collections."""
