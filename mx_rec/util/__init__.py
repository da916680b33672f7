"""Start and end, variables, log, ranks."""
