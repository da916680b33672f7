"""The functions and classes of ``ascpipe.tf``, in TensorFlow's terms; other packages implement them."""
