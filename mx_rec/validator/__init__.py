"""Argument checks. They are not provided, because public functions check their arguments."""
