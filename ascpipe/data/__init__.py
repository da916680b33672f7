"""Modules that find, index and read training data files, and that define the order of records. TensorFlow is not
needed.
"""
