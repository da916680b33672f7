"""Functions that divide the C++ sources into compilation units, and return the flags of each unit.

A source with TensorFlow compiles in 3 to 5 s of CPU time, and TensorFlow's headers need 2.6 s of it. Therefore,
several sources of a folder are compiled as one unit that includes them. The name of a source determines its unit, so a
new source changes only one unit. A unit consists of about five sources. With larger units, full builds would be faster,
and builds after an edit would be slower.

The module does no file I/O.
"""
import hashlib
import json
import zlib
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Sequence, Tuple

#: -DNDEBUG: Without it, checks in TensorFlow's headers abort the trainer when it frees our resources.
#: -ffp-contract=off: Results are the same on machines with and without fused multiply-add.
FLAGS = ("-std=c++14", "-O2", "-DNDEBUG", "-ffp-contract=off", "-fPIC", "-pthread", "-Wall", "-Wextra", "-Werror")
#: Folders with the loops over rows and records. -fno-math-errno lets the compiler vectorize loops with square roots.
LOOPS = ("core", "input", "rows")
LOOP_FLAGS = ("-O3", "-fno-math-errno")
#: Hidden symbols cannot be replaced by another library in the same process.
HIDDEN = ("-fvisibility=hidden",)
#: GCC treats an included source as a header and warns about class members of types in anonymous namespaces.
TOGETHER = ("-Wno-subobject-linkage",)

ONLY_FILES = ("disk", "rows")  #: folders of the sources that only libascpipe_files.so needs
FILES = (*ONLY_FILES, "input")  #: folders of the sources of libascpipe_files.so
WITHOUT_TENSORFLOW = ("core", "input", "peers", "step", *ONLY_FILES)
#: Sources of the core that libascpipe_files.so needs.
ALSO_FILES = ("core/bell.cc", "core/crc32c.cc", "core/memory_room.cc")
WITH_INFO = "bridge/c_api.cc"  #: the only source that contains the build info and is recompiled after a change of it
#: Units of each folder.
COUNTS = {"bridge": 7, "core": 5, "disk": 2, "graph": 6, "input": 2, "ops": 5, "peers": 2, "step": 1}
#: Sources that are not combined, because another library needs the object, the flags differ, or they compile slowly.
ALONE = (*ALSO_FILES, WITH_INFO, "core/bag_gradients.cc", "core/bags.cc")

PREFIX = "tensorflow_headers.h"  #: header that units with TensorFlow include first; it is precompiled for a full build
PREFIX_TEXT = "".join('#include "tensorflow/core/{}.h"\n'.format(name) for name in (
    "common_runtime/optimization_registry", "framework/op", "framework/op_kernel", "framework/shape_inference"))
#: Precompiling the headers needs as much time as it saves in three or four units.
LEAST_FOR_PREFIX = 5


class Unit(NamedTuple):
    """Sources that are compiled as one unit.

    Attributes:
        name: base name of the unit's files in the folder of objects.
        sources: sorted paths below ``src``. All sources are in one folder.
        text: C++ code that includes the sources. It is empty if one source is compiled directly.
    """

    name: str
    sources: Tuple[str, ...]
    text: str

    @property
    def folder(self) -> str:
        """Return the folder that contains the sources of the unit."""
        return self.sources[0].split("/")[0]

    @property
    def needs_tensorflow(self) -> bool:
        """Return whether compiling this unit requires TensorFlow."""
        return self.folder not in WITHOUT_TENSORFLOW


def divide(sources: Iterable[str]) -> List[Unit]:
    """Return the units of all sources (paths below ``src``).

    Units without TensorFlow are first. In each group, units of one ``ALONE`` source are first. Ties are sorted by name.
    """
    members: Dict[str, List[str]] = {}
    for source in sorted(sources):
        members.setdefault(_unit_of(source), []).append(source)
    units = []
    for name, of in members.items():
        alone = of[0] in ALONE
        units.append(Unit(name, tuple(of), "" if alone else "".join(map('#include "{}"\n'.format, of))))
    return sorted(units, key=lambda unit: (unit.needs_tensorflow, unit.sources[0] not in ALONE, unit.name))


def _unit_of(source: str) -> str:
    folder, name = source.split("/")
    if source in ALONE:
        return "{}-{}".format(folder, name.rsplit(".", 1)[0])
    return "{}-{}".format(folder, zlib.crc32(name.encode()) % COUNTS.get(folder, 1))


def flags_of(unit: Unit, tensorflow: Sequence[str], info: Mapping[str, Any]) -> List[str]:
    """Return the compiler flags of a unit.

    Args:
        unit: the unit.
        tensorflow: TensorFlow's compile flags.
        info: the build info (`build.build_info`).
    """
    flags = [*FLAGS, *HIDDEN]
    if unit.folder in LOOPS:
        flags += LOOP_FLAGS
    if unit.text:
        flags += TOGETHER
    for flag in tensorflow:
        if not flag.startswith("-I"):
            flags.append(flag)
        elif unit.needs_tensorflow:
            flags.append("-isystem" + flag[2:])
    if unit.needs_tensorflow:
        flags += ["-include", PREFIX]
    if WITH_INFO in unit.sources:
        flags.append("-DASC_BUILD_INFO=" + json.dumps(json.dumps(info, sort_keys=True)))
    return flags


def digest_of(*parts: object) -> str:
    """Return the SHA-256 of JSON-serializable values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def is_current(record: Mapping[str, Any], command: str, digests: Mapping[str, str]) -> bool:
    """Return whether an object is up to date: the digests of the command and of the input files are unchanged.

    Args:
        record: record of the object, ``{"command": digest, "inputs": {path: digest}}``, or an empty dict.
        command: digest of the command, the compiler, and all other dependencies that are not in ``digests``.
        digests: digests of all files that may be included, by path.
    """
    inputs = record.get("inputs")
    return (record.get("command") == command and isinstance(inputs, dict) and bool(inputs)
            and all(digests.get(path) == digest for path, digest in inputs.items()))


def inputs_of(rule: str, digests: Mapping[str, str]) -> Dict[str, str]:
    """Parse the make rule that the compiler's option -MD writes. Return a dict: input file of the compilation -> digest
    of the file.

    Headers of the system and of TensorFlow have no digest and are omitted. The command's digest covers their versions.
    """
    words = rule.partition(": ")[2].replace("\\\n", " ").split()
    return {word: digests[word] for word in words if word in digests}
