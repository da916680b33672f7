"""What a program builds with: tables, insert functions, lookups, and changes of tables."""
