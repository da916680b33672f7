"""Programs that use ascpipe the way a user would: through its public API only."""
