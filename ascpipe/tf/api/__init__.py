"""What ``import ascpipe.tf as asc`` offers, in the words of TensorFlow; other rooms do the work."""
