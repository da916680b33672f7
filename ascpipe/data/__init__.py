"""Files of training data: paths, records, indexes, features, and the order of records. TensorFlow is not needed."""
