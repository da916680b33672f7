"""Class of tables."""
