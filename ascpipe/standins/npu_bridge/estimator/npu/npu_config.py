"""Configurations."""
from ascpipe.tf.incumbent.ascend.run_config import DumpConfig, NPURunConfig, ProfilingConfig

__all__ = ["DumpConfig", "NPURunConfig", "ProfilingConfig"]
