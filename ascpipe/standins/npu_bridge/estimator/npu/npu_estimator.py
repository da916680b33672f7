"""Estimators."""
from ascpipe.tf.incumbent.ascend.estimator import NPUEstimator, NPUEstimatorSpec

__all__ = ["NPUEstimator", "NPUEstimatorSpec"]
