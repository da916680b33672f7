"""The part for TensorFlow 1."""


def enable_v1() -> None:
    """Nothing: this is TensorFlow 1."""
