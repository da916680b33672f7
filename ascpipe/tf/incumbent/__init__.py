"""Incumbent API that no other package provides, and stand-ins for packages of Ascend servers."""
