"""Errors of programs that call ascpipe with wrong arguments, in the wrong order, or for a graph that cannot be trained.

Each class is also a subclass of the built-in exceptions that programs written for Rec SDK catch.
"""
from ascpipe.errors.base import AscpipeError


class UsageError(AscpipeError):
    """Base class of the errors that are raised if a program uses ascpipe incorrectly.

    Attributes:
        text: description of the error, and the recommended action.
    """

    code = "E259"

    #: If a mapped function raises an error whose class has this constructor, AutoGraph raises the same class.
    __init__ = Exception.__init__

    @property
    def text(self) -> str:
        return str(self.args[0])


class ArgumentError(UsageError, ValueError, RuntimeError):
    """The value or the type of an argument is not allowed. Nothing was changed."""

    code = "E260"


class UnexpectedArgumentError(UsageError, TypeError):
    """A function was called with an unknown argument, or without a required argument."""

    code = "E261"


class InitializationError(UsageError, OSError):
    """``init`` was not called before another function, or was called twice."""

    code = "E262"


class CallOrderError(UsageError, OSError, RuntimeError):
    """A function was called too early or too late, for example after the start of the pipeline."""

    code = "E263"


class MissingFromGraphError(UsageError, RuntimeError, ValueError, KeyError):
    """The graph does not contain an object that a function needs, for example a table or a lookup."""

    code = "E264"


class FeatureError(UsageError, ValueError, KeyError, TypeError, OSError):
    """A FeatureSpec does not match the batches of a dataset, a table, or another FeatureSpec."""

    code = "E265"


class DatasetError(UsageError, ValueError):
    """A dataset or iterator cannot provide ids in the order in which batches are trained."""

    code = "E266"


class TableLookupError(UsageError, ValueError, RuntimeError, KeyError):
    """A lookup does not match its table, its graph, or the other lookups of the table."""

    code = "E267"


class TableError(UsageError, ValueError, RuntimeError):
    """A table cannot be created with the given arguments, or differs from the table of this name in another graph."""

    code = "E268"


class RowInitializerError(UsageError, ValueError):
    """The initializer of a table cannot compute the values of new rows."""

    code = "E269"


class OptimizerError(UsageError, ValueError, RuntimeError, KeyError, TypeError):
    """A table does not support an optimizer, or the slot variables of the optimizer."""

    code = "E270"


class GraphModificationError(UsageError, ValueError, RuntimeError, OSError):
    """The ops that compute ids cannot be moved into a dataset."""

    code = "E271"


class SaverError(UsageError, ValueError, RuntimeError):
    """A Saver, an export or a warm start has nothing to save or restore, or has an unsupported argument."""

    code = "E272"


class FilePathError(UsageError, ValueError):
    """A path cannot be opened. A path is not allowed if it has a scheme, is a symbolic link, is in a system directory,
    or does not exist.
    """

    code = "E273"


class EnvironmentVariableError(UsageError, ValueError, RuntimeError):
    """An environment variable is missing or has a value that is not allowed."""

    code = "E274"


class ServingError(UsageError, ValueError, RuntimeError):
    """A graph for serving uses tables in a way that a SavedModel does not support."""

    code = "E275"


class UnsupportedTensorFlowError(UsageError, OSError, RuntimeError):
    """TensorFlow lacks an attribute that ascpipe must replace. Nothing was started."""

    code = "E276"


class DataFilesError(UsageError, ValueError, OSError):
    """A list of training data files contains a path that does not exist, a directory, a remote path, or a file of
    unknown format.
    """

    code = "E277"
