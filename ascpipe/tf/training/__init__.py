"""Record of a program's losses, and changes to TensorFlow's optimizers, which then also train tables."""
