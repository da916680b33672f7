"""Loader of the compiled ops. The loader checks that the op library was built for the installed TensorFlow and ascpipe,
and loads the library once.
"""
import ctypes
import json
import threading
from pathlib import Path
from typing import Any, Dict, Optional

from ascpipe import __version__
from ascpipe.errors import AscpipeError
from ascpipe.layout import structs

HERE = Path(__file__).resolve().parent
LIBRARY = HERE / "libascpipe_ops.so"
FILES_LIBRARY = HERE / "libascpipe_files.so"  #: row engine and reader of records; it needs no TensorFlow
INFO = HERE / "build_info.json"


class OpsMissingError(AscpipeError):
    """The op library has not been built.

    Attributes:
        path: expected path.
    """

    code = "E221"
    fields = ("path",)
    template = ("{path} does not exist: the TensorFlow ops have not been built. Run: make build (in the source tree), "
                "or install a wheel, which has them (docs/how-to/install.md)")


class OpsMismatchError(AscpipeError):
    """The op library was built for another TensorFlow, ABI, layout or ascpipe version.

    Attributes:
        what: name of the property that differs.
        built: value when the library was built.
        here: current value.
    """

    code = "E222"
    fields = ("what", "built", "here")
    template = ("libascpipe_ops.so was built for {what} {built}, but this process has {here}. Run: make build (in the "
                "source tree), or install what the wheel was built for (docs/how-to/install.md)")


class SourcesMissingError(AscpipeError):
    """The ops cannot be built without their sources. A wheel contains only the compiled library.

    Attributes:
        folder: expected folder of the sources.
    """

    code = "E226"
    fields = ("folder",)
    template = ("{folder} does not exist: this is an installed package, which has its ops compiled and not their C++ "
                "sources. Nothing was changed. To compile them for another TensorFlow, build a wheel in the source "
                "tree: pip wheel --no-deps . (docs/how-to/install.md)")


_lock = threading.Lock()
_module: Optional[Any] = None
_library: Optional[ctypes.CDLL] = None


def read_info(path: Path = INFO) -> Dict[str, Any]:
    """Return the content of ``build_info.json``.

    Raises:
        OpsMissingError: ``build_info.json`` is missing or cannot be read.
    """
    try:
        info = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise OpsMissingError(str(path)) from error
    if not isinstance(info, dict):
        raise OpsMissingError(str(path))
    return info


def check_info(info: Dict[str, Any], version: str, abi: int) -> None:
    """Check that the library was built for this process.

    Args:
        info: content of build_info.json.
        version: ``tf.__version__``.
        abi: ``tf.sysconfig.CXX11_ABI_FLAG``.

    Raises:
        OpsMismatchError: a property differs. The message names the first difference.
    """
    for what, key, here in (("TensorFlow", "tensorflow", version), ("C++ ABI flag", "cxx11_abi", abi),
                            ("shared-memory layout", "layout", structs.layout_hash()),
                            ("ascpipe", "ascpipe", __version__)):
        if info.get(key) != here:
            raise OpsMismatchError(what, info.get(key), here)


def library_path() -> str:
    """Return the path of the op library.

    Raises:
        OpsMissingError: the library has not been built.
    """
    if not LIBRARY.exists():
        raise OpsMissingError(str(LIBRARY))
    return str(LIBRARY)


def load() -> Any:
    """Return the module with a Python function per op (``asc_submit`` and so on).

    Raises:
        OpsMissingError: the library has not been built.
        OpsMismatchError: the library was built for another TensorFlow, ABI or layout.
    """
    global _module, _library
    with _lock:
        if _module is None:
            import tensorflow as tf

            check_info(read_info(), tf.__version__, tf.sysconfig.CXX11_ABI_FLAG)
            module = tf.load_op_library(library_path())
            library = ctypes.CDLL(str(LIBRARY))  # the library is already loaded, so this returns the same mapping
            built = ctypes.c_int64()
            library.asc_layout_hash(ctypes.byref(built))
            if built.value != structs.layout_hash():  # build_info.json belongs to another library
                raise OpsMismatchError("shared-memory layout", built.value, structs.layout_hash())
            _module = module
            _library = library
        return _module


def files_library() -> ctypes.CDLL:
    """Load and return the library with the row engine and the record reader. The library does not need TensorFlow.

    Raises:
        OpsMissingError: the library has not been built.
        OpsMismatchError: the library was built for another layout.
    """
    if not FILES_LIBRARY.exists():
        raise OpsMissingError(str(FILES_LIBRARY))
    loaded = ctypes.CDLL(str(FILES_LIBRARY))
    loaded.asc_disk_layout_hash.restype = ctypes.c_int64
    built = loaded.asc_disk_layout_hash()
    if built != structs.layout_hash():
        raise OpsMismatchError("shared-memory layout", built, structs.layout_hash())
    return loaded


def library() -> ctypes.CDLL:
    """Return the C interface of the op library. The function loads the library if it is not loaded yet.

    Raises:
        OpsMissingError, OpsMismatchError: see ``load``.
    """
    load()
    if _library is None:
        raise OpsMissingError(str(LIBRARY))
    return _library
