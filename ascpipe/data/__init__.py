"""Files of training data: which files, their records, indexes and features, and the order of records. No TensorFlow."""
