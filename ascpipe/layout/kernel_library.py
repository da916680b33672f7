"""How the library of compiled kernels is named, which processors it is for, and how a process learns its path.

A library depends on the sources of the kernels, on the C interface of Python, and on the instructions of the processor.
It has numba's C helpers in it and needs no numba; numpy's C interface is the same in all versions that are allowed.
"""
import functools
import hashlib
import sysconfig
from pathlib import Path
from typing import Collection, Dict, List, NamedTuple

VARIABLE = "KERNEL_LIBRARY"  #: of the environment: path of a library; empty or unset = numba has it, or compiles
NUMBA_FOLDER = "numba"  #: below NUMBA_CACHE_DIR: what numba keeps of kernels
COMPILERS = ("gcc", "cc", "clang")  #: of C; the first of them that is on the path links it
NATIVE = "native"  #: in place of a level: for the processor that compiles it and no other
_DESCRIBED = 1 << 14  # bytes of /proc/cpuinfo: the first processor, and not all of a hundred
_PACKAGE = Path(__file__).resolve().parent.parent


class Level(NamedTuple):
    """A level of x86-64, as the psABI defines it.

    Attributes:
        processor: the oldest one of that level that LLVM 11 knows: LLVM 12 was the first to know the levels.
        without: what that processor has beyond the level, for LLVM.
        flags: what /proc/cpuinfo says of a processor of that level.
    """

    processor: str
    without: str
    flags: Collection[str]


_V2 = frozenset({"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"})
#: the best one first
LEVELS = {
    "x86-64-v3": Level("haswell", "-fsgsbase,-invpcid,-pclmul,-rdrnd,-xsaveopt",
                       _V2 | {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"}),
    "x86-64-v2": Level("nehalem", "", _V2),
}


def levels_of(flags: Collection[str]) -> List[str]:
    """Levels whose code runs on a processor with these flags of /proc/cpuinfo, the best one first."""
    return [name for name, level in LEVELS.items() if not set(level.flags) - set(flags)]


def described_processor() -> Dict[str, str]:
    """The lines of /proc/cpuinfo about the first processor; empty where there is no such file."""
    try:
        with open("/proc/cpuinfo", "rb") as file:
            text = file.read(_DESCRIBED).decode("ascii", "replace").split("\n\n")[0]
    except OSError:
        return {}
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}


def file_name(level: str) -> str:
    """Of the library for a level, for the sources as they are and this Python.

    Args:
        level: one of LEVELS, or NATIVE.
    """
    if level == NATIVE:
        told = described_processor()
        text = "\n".join(told.get(name, "") for name in ("vendor_id", "model name", "flags"))
        level = "native-" + hashlib.sha256(text.encode()).hexdigest()[:8]
    return "library-{}-{}.{}.so".format(sources_digest(), level, sysconfig.get_config_var("SOABI"))


def installed_folder() -> str:
    """Where an installed package has libraries."""
    return str(_PACKAGE / "kernels")


@functools.lru_cache(maxsize=None)
def sources_digest() -> str:
    """16 hexadecimal digits over every source that workers compile, and what these take constants from."""
    digest = hashlib.sha256()
    for path in sources():
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def sources() -> List[Path]:
    """The files that ``sources_digest`` reads."""
    return [path for folder in ("kernels", "layout") for ending in ("*.py", "*.c")
            for path in sorted((_PACKAGE / folder).glob(ending))]
