"""The functions and classes of ``ascpipe.tf`` with TensorFlow's terms. Other packages contain their implementation."""
