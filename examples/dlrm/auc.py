"""Exact area under the ROC curve, and log loss of the same predictions."""
import numpy as np


def area_under_curve(labels: np.ndarray, scores: np.ndarray) -> float:
    """Return the probability that a random clicked row scores above a random other row. Ties count half.

    Args:
        labels: [n], 0 or 1.
        scores: [n], any monotonic score.

    Returns:
        0 to 1, or NaN if all labels are equal.
    """
    clicked = labels > .5
    positives = int(clicked.sum())
    negatives = len(labels) - positives
    if not positives or not negatives:
        return float("nan")
    _, place, sizes = np.unique(scores, return_inverse=True, return_counts=True)
    ends = np.cumsum(sizes)
    ranks = (ends - (sizes - 1) / 2.0)[place]  # average rank of each tie group, starting at 1
    return float((ranks[clicked].sum() - positives * (positives + 1) / 2.0) / (float(positives) * negatives))


def log_loss(labels: np.ndarray, logits: np.ndarray) -> float:
    """Return the mean cross entropy of logits in nats."""
    logits = logits.astype(np.float64)
    return float(np.mean(np.maximum(logits, 0) - logits * labels + np.log1p(np.exp(-np.abs(logits)))))
