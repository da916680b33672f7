"""Record of a program's losses, and changes of TensorFlow's optimizers so that they train tables."""
