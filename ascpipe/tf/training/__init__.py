"""Records the losses of a program, and lets its optimizers train tables."""
