"""A marked graph that does not start stays marked, and says why as a program expects it."""
import pytest
import tensorflow as tf

from ascpipe.tf.running.deferred_starts import DeferredStarts


def raised_by(*errors):
    """What the start of a graph raises, each the cause of the next one, and how many graphs wait after it."""
    starts, graph = DeferredStarts(), tf.Graph()

    def start(_):
        cause = None
        for error in errors:
            error.__cause__, cause = cause, error
        raise cause

    starts.mark(graph, start, lambda _: True)
    with pytest.raises(BaseException) as found:
        starts.start(graph)
    return type(found.value), len(starts.graphs())


def test_an_interrupt_in_the_midst_of_a_c_function_is_an_interrupt():
    assert raised_by(KeyboardInterrupt(), SystemError("returned a result with an error set")) == (KeyboardInterrupt, 1)
    assert raised_by(KeyboardInterrupt(), SystemError("one"), SystemError("two")) == (KeyboardInterrupt, 1)


def test_other_errors_are_what_they_are():
    assert raised_by(SystemError("one")) == (SystemError, 1)
    assert raised_by(ValueError("one"), SystemError("two")) == (SystemError, 1)
    assert raised_by(KeyboardInterrupt(), ValueError("two")) == (ValueError, 1)
