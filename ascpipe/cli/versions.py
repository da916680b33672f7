"""Version information for bug reports, printed by ``ascpipe --version --verbose``."""
import platform
from typing import List, Optional

from ascpipe.errors import AscpipeError


def installed(*packages: str) -> Optional[str]:
    """Return the version of the first package that is installed, or None. The package is not imported."""
    import importlib_metadata

    for name in packages:
        try:
            return str(importlib_metadata.version(name))
        except importlib_metadata.PackageNotFoundError:
            continue
    return None


def lines() -> List[str]:
    """Return the versions of ascpipe's components, one line each. The function avoids slow imports."""
    from ascpipe.cli.doctor import tensorflow_version
    from ascpipe.layout import structs
    from ascpipe.layout.kernel_library import sources_digest
    from ascpipe.tfops import load

    try:
        info = load.read_info()
        ops = "for TensorFlow {tensorflow}, C++ ABI flag {cxx11_abi}, layout {layout:x}".format(**info)
    except (AscpipeError, KeyError, ValueError):
        ops = "not built"
    return ["Python: {} {}".format(platform.python_implementation(), platform.python_version()),
            "TensorFlow: {}".format(tensorflow_version() or "not installed"),
            "layout of shared memory: {} ({:x})".format(structs.VERSION, structs.layout_hash()),
            "ops: {}".format(ops), "kernels: {}".format(sources_digest()), "system: {}".format(platform.platform())]
