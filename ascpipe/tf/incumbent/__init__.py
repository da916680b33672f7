"""Names of the incumbent that have no other home here, and what Ascend programs import beside it."""
