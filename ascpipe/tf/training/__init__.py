"""Record of a program's losses, and changes that enable TensorFlow's optimizers to train tables."""
