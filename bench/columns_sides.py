"""The sides of ``bench/usual_columns.py``, each in a process of its own."""
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
    """The side that a setting describes; ``environment``: of its process."""
    return Side([sys.executable, "-m", usual_columns.__name__, json.dumps(setting._asdict())], environment=environment)


@contextlib.contextmanager
def with_data(setting: Setting) -> Iterator[Setting]:
    """The setting with a file of its batches, which goes with the block."""
    with tempfile.TemporaryDirectory(prefix="bench-data-") as folder:
        path = os.path.join(folder, "rows.tfrecord")
        usual_columns.write_examples(setting, path)
        yield setting._replace(data=path)


def sized(setting: Setting) -> Setting:
    """The setting; in a run with small sizes with few buckets, yet enough for tables."""
    return setting._replace(buckets=workloads.sized(setting.buckets, LEAST_BUCKETS),
                            batches=workloads.sized(setting.batches, 4))
