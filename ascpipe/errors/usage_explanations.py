"""Explanations of the errors in ``ascpipe/errors/usage.py``."""
from typing import Dict, NamedTuple


class Explanation(NamedTuple):
    """Explanation of one code. Each field contains one or more sentences.

    Attributes:
        what: description of the event.
        data: consequences for tables, batches and checkpoints.
        cure: recommended action.
    """

    what: str
    data: str
    cure: str


NOTHING = "Nothing was changed."
UNTRAINED = "Nothing was trained."
EXPECTED = "The message states the actual and the expected value."

USAGE: Dict[str, Explanation] = {
    "E259": Explanation(
        "The program called a function incorrectly, and no other code describes the error.", NOTHING, EXPECTED),
    "E260": Explanation(
        "An argument of a function has a value or type that is not allowed.", NOTHING, EXPECTED),
    "E261": Explanation(
        "A function was called with an argument that it does not have, or without a required argument.", NOTHING,
        "The message suggests an argument with a similar name if one exists."),
    "E262": Explanation(
        "`asc.init()` was not called before another function, was called twice, or was called while TensorFlow "
        "has the behavior of TensorFlow 2.", NOTHING,
        "Call `asc.init()` once, before the first table. With TensorFlow 2.15, call "
        "`tf.compat.v1.disable_v2_behavior()` first (docs/how-to/tensorflow2.md). To build the model again, as in "
        "a notebook, call `asc.reset()`."),
    "E263": Explanation(
        "A function was called too early or too late, for example after the pipeline ended, or the graph is already "
        "finalized.", NOTHING,
        "The order of calls is: `init`, `insert_function`, `create_table`, `sparse_lookup`, an optimizer, "
        "`start`, then a session (docs/tutorial/first_program.md). Restore, evict or warm-start tables after "
        "`start`. Read tables before `shutdown`, or inside the block `with asc.pipeline()`."),
    "E264": Explanation(
        "The graph lacks an object that a function needs, for example a table, a lookup, a dataset that submits "
        "ids, or a global step.", NOTHING,
        "Create the object in the same graph before the call, and check the spelling of table names."),
    "E265": Explanation(
        "A FeatureSpec does not match the batches of its dataset, its table, or another FeatureSpec. Or its ids change "
        "after the insert function.", NOTHING,
        "Correct `index_key`, the dtype or shape of the ids, or the thresholds. Eviction needs a timestamp in each "
        "training batch (docs/how-to/tables.md)."),
    "E266": Explanation(
        "A dataset or iterator cannot submit ids in the order of training. For example, stages after "
        "`map(insert_function)` reorder, drop or repeat batches, or one insert function has two iterators.", NOTHING,
        "Make `map(insert_function)` the last stage before `prefetch`, without `num_parallel_calls`. The mapped "
        "function must return the whole result of the insert function."),
    "E267": Explanation(
        "A lookup does not match its table, its graph, or the other lookups of the table.", NOTHING,
        "Pass a FeatureSpec, or a tensor of ids. All ids of a lookup must come from one iterator."),
    "E268": Explanation(
        "A table cannot be created. An argument is wrong, or a table with the same name in another graph has different "
        "properties.", NOTHING,
        "Use the same arguments in all graphs (docs/how-to/tables.md). Create the directory in `ssd_data_path` if it "
        "does not exist."),
    "E269": Explanation(
        "The initializer of a table cannot compute the values of new rows. The shape is wrong, a value is not "
        "finite, or a parameter is known only when the graph runs.", NOTHING,
        "Use an initializer with constant parameters that returns values of the row's shape. For the rows of a "
        "matrix, use `create_table(pretrained=...)` (docs/how-to/rows_in_and_out.md)."),
    "E270": Explanation(
        "A table does not support an optimizer, or the slot variables of the optimizer.", UNTRAINED,
        "Use an optimizer of `asc.optimizers`, or an optimizer of TensorFlow that supports tables "
        "(docs/how-to/tables_and_variables.md)."),
    "E271": Explanation(
        "The ops that compute ids cannot be moved into a dataset, so the ids are not known before the step that "
        "uses them.", NOTHING,
        "Compute ids from the batch of one iterator with stateless ops. The message lists the ops that are not "
        "allowed (docs/how-to/graph_modification.md)."),
    "E272": Explanation(
        "A Saver, an export or a warm start has nothing to save or restore, or received an unsupported argument.",
        NOTHING, "See docs/how-to/saving.md."),
    "E273": Explanation(
        "A path was refused, because it has an unknown scheme, is a symbolic link, is in a system directory, or "
        "does not exist.", NOTHING, "Pass the path of a regular file or directory that belongs to you."),
    "E274": Explanation(
        "An environment variable is missing or has a value that is not allowed.", NOTHING,
        "Set the variable. `ascpipe run` sets the environment variables of ranks."),
    "E275": Explanation(
        "A graph for serving uses tables in a way that a SavedModel does not support, or the dtype of an export "
        "cannot represent a row.", NOTHING,
        "Call `asc.serving_tables()` in a graph without tables. Look up rows, and export the model, inside its `with` "
        "block. With `ops=\"stock\"`, the graph must have no ops of ascpipe "
        "(docs/how-to/saved_models.md)."),
    "E276": Explanation(
        "The installed TensorFlow lacks a function or class that ascpipe must replace.", NOTHING,
        "Install a supported version of TensorFlow (docs/how-to/install.md)."),
    "E277": Explanation(
        "A path of training data does not exist, matches no files, is a directory, is remote, or has an unsupported "
        "format.", NOTHING,
        "Pass paths or patterns of local files, for example `data/*.tfrecord`. Copy remote files to a local disk "
        "first (docs/how-to/training_data.md)."),
}
