"""The table class."""
