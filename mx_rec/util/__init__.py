"""Initialization, variables, log and ranks."""
from mx_rec.util.communication import hccl_ops  # noqa: F401  programs read mx_rec.util.communication.hccl_ops
