"""Functions that save, restore and export tables together with TensorFlow's variables."""
