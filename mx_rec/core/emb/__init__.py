"""Classes of tables."""
