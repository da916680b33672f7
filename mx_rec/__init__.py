"""Import paths and names of Huawei's Rec SDK, implemented by ascpipe.

The modules re-export names of ``ascpipe.tf``. The import also patches TensorFlow's Savers, warm starts, exports and
gradients, so that they support tables.
"""
from ascpipe import import_hints, program_log
from ascpipe.tf import patches
from ascpipe.tf.api import installing
from ascpipe.tf.incumbent.ascend import deterministic
from mx_rec import _missing, _product

__version__ = "6.0.RC3"  #: version of Rec SDK's API

_product.refuse_another(__path__)  # before TensorFlow is patched
import_hints.install(__name__, _missing.MISSING)
import_hints.point_to_run()
program_log.program_logger()
patches.INCUMBENT.use()
installing.install()
deterministic.install()


def version() -> str:
    """Return ``__version__``."""
    return __version__
