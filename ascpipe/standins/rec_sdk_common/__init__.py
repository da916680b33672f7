"""Stand-in for what the incumbent's packages share."""
