"""TensorFlow's file ``checkpoint``, which names the newest checkpoint of a directory."""
import os

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.errors import NotPublishedError
from ascpipe.checkpoint.tree import why
from ascpipe.rows.free_names import Name

_STATE = "checkpoint"  #: TensorFlow's file with the name of the newest checkpoint


def note_newest(place: Name) -> None:
    """Write the name of the new checkpoint to TensorFlow's file ``checkpoint``, so that an Estimator starts from the
    new checkpoint.

    An existing file is not changed.
    """
    directory, base, step = place
    stem = base if step is None else "{}-{}".format(base, step)
    text = "model_checkpoint_path: \"{0}\"\nall_model_checkpoint_paths: \"{0}\"\n".format(
        stem.replace("\\", "\\\\").replace("\"", "\\\""))
    try:
        with disk.closing(disk.open_directory(directory)) as fd:
            if not disk.is_there(fd, _STATE):
                disk.replace_file(fd, _STATE, text.encode())
    except OSError as error:
        raise NotPublishedError(os.path.join(directory, stem), directory, why(error)) from error
