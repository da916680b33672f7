"""Stand-in for what the incumbent's packages share."""
from ascpipe import import_hints

import_hints.install(__name__)
