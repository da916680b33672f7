"""Stand-in: the names of the adapter in one place."""
from npu_bridge.npu_init import *  # noqa: F403

from ascpipe import import_hints

import_hints.install(__name__)
