"""Configurations."""
from ascpipe.tf.incumbent.ascend.estimator import DumpConfig, NPURunConfig, ProfilingConfig

__all__ = ["DumpConfig", "NPURunConfig", "ProfilingConfig"]
