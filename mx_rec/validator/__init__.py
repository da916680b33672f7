"""Argument checks; not provided, because public functions check their arguments."""
