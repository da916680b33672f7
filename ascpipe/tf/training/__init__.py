"""Code that records the losses of a program, and enables the program's optimizers to train tables."""
