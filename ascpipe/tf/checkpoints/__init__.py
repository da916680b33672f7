"""Save, restore and export of tables together with TensorFlow's variables."""
