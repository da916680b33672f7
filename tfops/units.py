"""Divides the C++ sources into units of compilation, with the flags of each unit.

Most of the time of a source that includes TensorFlow goes into TensorFlow's headers: 2.6 of 3 to 5 s of processor time.
So several sources of a folder are compiled together, as one unit that includes them. The name of a source alone decides
its unit, so that a new source changes one unit and no other. A unit has about five sources: with larger units a full
build takes less time, and the build after an edit takes more.

Nothing here reads or writes a file.
"""
import hashlib
import json
import zlib
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Sequence, Tuple

#: -DNDEBUG: without it TensorFlow's header checks abort the trainer when it frees our resources.
#: -ffp-contract=off: the same bits on machines with and without fused multiply-add.
FLAGS = ("-std=c++14", "-O2", "-DNDEBUG", "-ffp-contract=off", "-fPIC", "-pthread", "-Wall", "-Wextra", "-Werror")
#: Loops over rows are in the core: vectorised, also where they take roots, which therefore do not set errno.
CORE_FLAGS = ("-O3", "-fno-math-errno")
#: Names stay inside the library, so that another library in the same process cannot replace them.
HIDDEN = ("-fvisibility=hidden",)
#: To GCC an included source is a header, whose classes should not have members of types in anonymous namespaces.
TOGETHER = ("-Wno-subobject-linkage",)

DISK = "disk"  #: folder of sources that make a library of their own
WITHOUT_TENSORFLOW = ("core", "peers", "step", DISK)
ALSO_DISK = ("core/bell.cc",)  #: what the library of the row engine takes from the core
WITH_INFO = "bridge/c_api.cc"  #: the one file that says what it was built for, so that other objects stay as they are
#: Units of each folder.
COUNTS = {"bridge": 7, "core": 5, DISK: 2, "graph": 6, "ops": 5, "peers": 2, "step": 1}
#: Sources with a unit of their own: another library needs the object, the flags differ, or they take long.
ALONE = (*ALSO_DISK, WITH_INFO, "core/bag_gradients.cc", "core/bags.cc")

PREFIX = "tensorflow_headers.h"  #: included first by units that need TensorFlow; precompiled for a full build
PREFIX_TEXT = "".join('#include "tensorflow/core/{}.h"\n'.format(name) for name in (
    "common_runtime/optimization_registry", "framework/op", "framework/op_kernel", "framework/shape_inference"))
#: Precompiling the headers costs as much as three or four units save.
LEAST_FOR_PREFIX = 5


class Unit(NamedTuple):
    """Sources that are compiled together.

    Attributes:
        name: of its files in the folder of objects.
        sources: paths below ``src``, sorted; all of one folder.
        text: what is compiled, which includes the sources; empty if the only source itself is compiled.
    """

    name: str
    sources: Tuple[str, ...]
    text: str

    @property
    def folder(self) -> str:
        """The folder of all sources."""
        return self.sources[0].split("/")[0]

    @property
    def needs_tensorflow(self) -> bool:
        """Whether it can be compiled only where TensorFlow is installed."""
        return self.folder not in WITHOUT_TENSORFLOW


def divide(sources: Iterable[str]) -> List[Unit]:
    """The units of all sources (paths below ``src``): without TensorFlow first, long ones first, then by name."""
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
    """The compiler's flags for a unit.

    Args:
        unit: the unit.
        tensorflow: the flags that TensorFlow asks for.
        info: what the library is built for.
    """
    flags = [*FLAGS, *HIDDEN]
    if unit.folder == "core":
        flags += CORE_FLAGS
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
    """SHA-256 of values that JSON can hold."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def is_current(record: Mapping[str, Any], command: str, digests: Mapping[str, str]) -> bool:
    """Whether an object was made by this command from files with these digests.

    Args:
        record: what was written beside the object: ``{"command": digest, "inputs": {path: digest}}``; empty if nothing.
        command: digest of the command, of the compiler, and of all else that is not in ``digests``.
        digests: path -> digest of all files that may be included.
    """
    inputs = record.get("inputs")
    return (record.get("command") == command and isinstance(inputs, dict) and bool(inputs)
            and all(digests.get(path) == digest for path, digest in inputs.items()))


def inputs_of(rule: str, digests: Mapping[str, str]) -> Dict[str, str]:
    """The files that a compiler has read, with their digests, from the rule for make that it wrote (-MD).

    Files without a digest are left out: the headers of the system and of TensorFlow, whose versions are part of the
    command's digest.
    """
    words = rule.partition(": ")[2].replace("\\\n", " ").split()
    return {word: digests[word] for word in words if word in digests}
