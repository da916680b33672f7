"""Save, restore and export of tables."""
