"""Several iterations in one run."""
from ascpipe.tf.incumbent.ascend.iterations import IterationPerLoop, set_iteration_per_loop

__all__ = ["IterationPerLoop", "set_iteration_per_loop"]
