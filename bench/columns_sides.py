"""Sides of ``bench/usual_columns.py``. Each side is a separate process."""
import contextlib
import json
import os
import sys
import tempfile
from typing import Dict, Iterator, Optional

from bench import usual_columns, workloads
from bench.usual_columns import LEAST_BUCKETS, Setting
from bench.usual_model import OURS, PLAIN
from bench.usual_sides import Side

NAMES = {OURS: "ascpipe, use_for_feature_columns", PLAIN: "tf.feature_column"}


def side_of(setting: Setting, *, environment: Optional[Dict[str, str]] = None) -> Side:
    """Return the side of a setting. ``environment`` is the environment of its process."""
    return Side([sys.executable, "-m", usual_columns.__name__, json.dumps(setting._asdict())], environment=environment)


@contextlib.contextmanager
def with_data(setting: Setting) -> Iterator[Setting]:
    """Yield the setting with a file of its batches. The file is removed when the block exits."""
    with tempfile.TemporaryDirectory(prefix="bench-data-") as folder:
        path = os.path.join(folder, "rows.tfrecord")
        usual_columns.write_examples(setting, path)
        yield setting._replace(data=path)


def sized(setting: Setting) -> Setting:
    """Return the setting, with few buckets in a run with small sizes. The number of buckets is still large
    enough for tables.
    """
    return setting._replace(buckets=workloads.sized(setting.buckets, LEAST_BUCKETS),
                            batches=workloads.sized(setting.batches, 4))
