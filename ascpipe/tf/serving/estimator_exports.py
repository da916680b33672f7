"""Estimators export their tables with ``export_saved_model`` and its variants (docs/saved_models.md)."""
import contextlib
import os
import weakref
from typing import Any, Callable, Dict, MutableMapping

from ascpipe.tf import internals, patches
from ascpipe.tf.clean_up import temporary_folder
from ascpipe.tf.running.process import Process
from ascpipe.tf.serving.served_tables import Files, served_from

#: Of each SavedModel that is being written: the graphs of its modes share files.
_files_of: MutableMapping[Any, Files] = weakref.WeakKeyDictionary()


def install() -> None:
    """Let every Estimator of this process export the tables of its graphs, too. May be called twice."""
    patches.ADD_META_GRAPH.apply(_add_meta_graph)


def _add_meta_graph(self: Any, builder: Any, input_receiver_fn_map: Dict[Any, Any], checkpoint_path: Any, *args: Any,
                    **kwargs: Any) -> Any:
    """In the place of TensorFlow's, which makes a graph, then calls the input receiver of its mode, then the model."""
    if not Process.is_initialised():
        return patches.ADD_META_GRAPH.plain(self, builder, input_receiver_fn_map, checkpoint_path, *args, **kwargs)
    with contextlib.ExitStack() as ends:
        # Where TensorFlow would copy assets to: what is there already, it leaves as it is.
        folder = os.path.join(internals.folder_of(builder), "assets")
        if "://" in folder:  # not a local directory: TensorFlow copies the files
            folder = ends.enter_context(temporary_folder("ascpipe-export-"))
        files = _files_of.setdefault(builder, {})

        def served(receive: Callable[[], Any]) -> Callable[[], Any]:
            def receive_served() -> Any:
                ends.enter_context(served_from(os.fsdecode(checkpoint_path), folder, files))
                return receive()

            return receive_served

        receivers = {mode: receive and served(receive) for mode, receive in input_receiver_fn_map.items()}
        return patches.ADD_META_GRAPH.plain(self, builder, receivers, checkpoint_path, *args, **kwargs)
