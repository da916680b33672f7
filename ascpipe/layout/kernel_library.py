"""Name and location of the library of compiled kernels, and the processors that the library supports.

A library depends on the sources of the kernels, the C API of Python and the instructions of the processor. The library
contains numba's C helpers and does not need numba. All allowed versions of numpy have the same C API.
"""
import functools
import hashlib
import sysconfig
from pathlib import Path
from typing import Collection, Dict, List, NamedTuple

VARIABLE = "KERNEL_LIBRARY"  #: environment variable with the library's path; if empty or unset, numba provides kernels
NUMBA_FOLDER = "numba"  #: folder of numba's kernels below NUMBA_CACHE_DIR
COMPILERS = ("gcc", "cc", "clang")  #: C compilers; the first compiler in PATH links the library
NATIVE = "native"  #: used instead of a level; the library is only for the processor that compiles it
_DESCRIBED = 1 << 14  # bytes of /proc/cpuinfo: enough for the first processor
_PACKAGE = Path(__file__).resolve().parent.parent


class Level(NamedTuple):
    """Microarchitecture level of x86-64, as defined by the psABI.

    Attributes:
        processor: LLVM's name of the oldest processor of that level, because LLVM 11 has no names for levels.
        without: features of that processor that are not part of the level and are disabled in LLVM.
        flags: flags in /proc/cpuinfo that the level requires.
    """

    processor: str
    without: str
    flags: Collection[str]


_V2 = frozenset({"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"})
#: the best level is first
LEVELS = {
    "x86-64-v3": Level("haswell", "-fsgsbase,-invpcid,-pclmul,-rdrnd,-xsaveopt",
                       _V2 | {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"}),
    "x86-64-v2": Level("nehalem", "", _V2),
}


def levels_of(flags: Collection[str]) -> List[str]:
    """Return the x86-64 levels that a processor supports. ``flags`` are the processor's flags in /proc/cpuinfo. The
    best level is first.
    """
    return [name for name, level in LEVELS.items() if not set(level.flags) - set(flags)]


def described_processor() -> Dict[str, str]:
    """Return the fields of the first processor in /proc/cpuinfo as a dict. The dict is empty if the file is missing."""
    try:
        with open("/proc/cpuinfo", "rb") as file:
            text = file.read(_DESCRIBED).decode("ascii", "replace").split("\n\n")[0]
    except OSError:
        return {}
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}


def file_name(level: str) -> str:
    """Return the file name of the kernel library for a level. The name depends on the sources and on the Python
    version.

    Args:
        level: a name in LEVELS, or NATIVE.
    """
    if level == NATIVE:
        told = described_processor()
        text = "\n".join(told.get(name, "") for name in ("vendor_id", "model name", "flags"))
        level = "native-" + hashlib.sha256(text.encode()).hexdigest()[:8]
    return "library-{}-{}.{}.so".format(sources_digest(), level, sysconfig.get_config_var("SOABI"))


def installed_folder() -> str:
    """Return the folder that contains the kernel libraries of the installed package."""
    return str(_PACKAGE / "kernels")


@functools.lru_cache(maxsize=None)
def sources_digest() -> str:
    """Return a hash of the kernel sources and of the constants that kernels use, as 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for path in sources():
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def sources() -> List[Path]:
    """Return the files that ``sources_digest`` reads."""
    return [path for folder in ("kernels", "layout") for ending in ("*.py", "*.c")
            for path in sorted((_PACKAGE / folder).glob(ending))]
