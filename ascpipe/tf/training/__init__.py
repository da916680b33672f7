"""Code that records the losses of a program, and lets the program's optimizers train tables."""
