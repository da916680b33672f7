"""Functions that save, restore and export tables."""
