"""Estimators."""
from ascpipe.tf.ascend.estimator import NPUEstimator, NPUEstimatorSpec

__all__ = ["NPUEstimator", "NPUEstimatorSpec"]
