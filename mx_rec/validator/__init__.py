"""Checks of arguments; not provided, as public functions check what they are given."""
