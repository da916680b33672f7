"""Tables, lookups, features."""
