"""Names of collections."""
