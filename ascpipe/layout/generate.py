"""Generator of C++ headers from the modules of ``ascpipe.layout``: ``python -m ascpipe.layout.generate FOLDER``.

The headers are layout.gen.h (structs, states, constants), error_codes.gen.h and calls.gen.h in FOLDER/core. The build
of the ops runs this program and adds FOLDER to the include path.
"""
import ctypes
import sys
from pathlib import Path
from types import ModuleType
from typing import Dict, Iterator, Sequence, Tuple

import numpy as np

from ascpipe.layout import bells, calls, codes, declaring, initial_kinds, ring_shape, structs, ticket, words

_SCALARS = {np.dtype("<" + kind): "std::" + name for kind, name in (
    ("u2", "uint16_t"), ("i4", "int32_t"), ("u4", "uint32_t"), ("i8", "int64_t"), ("u8", "uint64_t"))}

_CALL_TYPES = {ctypes.c_int: "int", ctypes.c_int64: "std::int64_t", ctypes.c_uint64: "std::uint64_t",
               ctypes.c_double: "double", ctypes.c_char_p: "const char*",
               ctypes.POINTER(ctypes.c_int64): "const std::int64_t*",
               ctypes.POINTER(ctypes.c_uint32): "const std::uint32_t*",
               ctypes.POINTER(ctypes.c_uint8): "const std::uint8_t*",
               ctypes.POINTER(ctypes.c_void_p): "void* const*", ctypes.c_void_p: "void*",
               ctypes.POINTER(ctypes.c_char_p): "const char* const*",
               ctypes.POINTER(ctypes.c_int32): "std::int32_t*"}  # only results have this type


def _integers(module: ModuleType, *names: str, prefix: str = "") -> Dict[str, int]:
    """Return the integer constants of a module that are named in ``names`` or begin with ``prefix``."""
    return {name: value for name, value in vars(module).items()
            if isinstance(value, int) and (name in names or bool(prefix) and name.startswith(prefix))}


_ENUMS: Tuple[Tuple[str, str, Dict[str, int]], ...] = (
    ("Word", "std::uint32_t", _integers(words, *words.WORD_NAMES.values())),
    ("Channel", "std::int32_t", _integers(words, "TRAIN", "EVAL", "LOCAL")),
    ("EntryState", "std::int32_t", _integers(words, "FREE", "NAMED", "TRAINED")),
    ("PlanStatus", "std::int64_t", _integers(words, prefix="PLAN_")),
    ("CutKind", "std::int32_t", _integers(words, prefix="CUT_")),
    ("RequestWord", "std::uint32_t", _integers(words, "REQUEST_EMPTY", "REQUEST_ASKED", "REQUEST_TAKEN",
                                               "REQUEST_DONE", "REQUEST_FAILED")),
    ("RequestKind", "std::int32_t", _integers(words, "REQUEST_READ", "REQUEST_WRITE")),
    ("WaitsFor", "std::int32_t", _integers(words, prefix="WAIT_")),
    ("InitialKind", "std::int32_t",
     {"INITIAL_" + name: value for name, value in vars(initial_kinds).items() if name.isupper()}),
)
_CONSTANTS: Tuple[Tuple[str, ModuleType, Sequence[str]], ...] = (
    ("std::uint32_t", structs, ("VERSION", "MAGIC")),
    ("int", structs, ("MAX_FRAMES", "MAX_KEY_WORKERS", "MAX_TABLE_WORKERS", "MAX_SPEC_RANK")),
    ("int", structs, ("DISK_READERS", "DISK_READS")),
    ("int", structs, ("BELL_TRAINER", "BELL_PUMP", "BELL_KEY_WORKERS", "BELL_TABLE_WORKERS",
                     "BELL_DISK_WORKER", "BELLS")),
    ("std::int64_t", structs, ("CACHE_LINE", "PAGE", "SESSION_BELLS_OFFSET", "SESSION_EXCHANGES_OFFSET",
                               "SESSION_READING_OFFSET", "SESSION_BYTES")),
    ("std::size_t", structs, ("FAILURE_TEXT_BYTES",)),
    ("std::int32_t", words, ("SLOT_NONE", "SLOT_HOME", "SLOT_FROZEN", "SLOT_DISK", "HOME_NONE",
                                "HOME_DISK")),
    ("int", ticket, ("SEQUENCE_BITS",)),
    ("std::int64_t", ticket, ("SEQUENCE_MASK", "MOST_RUNS")),
    ("std::uint32_t", bells, ("AWAKE", "ASLEEP", "PAUSING")),
    ("int", bells, ("SLICE_MS", "IDLE_SLICE_MS", "GRACE_MS")),
    ("std::int64_t", bells, ("LEAST_SPIN_NS",)),
)

_HEADER = """// Written by ascpipe/layout/generate.py from ascpipe/layout: change it there.
#ifndef ASCPIPE_CORE_{guard}_GEN_H_
#define ASCPIPE_CORE_{guard}_GEN_H_

{includes}

namespace ascpipe {{
{body}
}}  // namespace ascpipe

#endif  // ASCPIPE_CORE_{guard}_GEN_H_
"""


def cpp_name(name: str) -> str:
    """Return the C++ name of a constant, for example ``kSlotNone`` for ``SLOT_NONE``."""
    return "k" + name.title().replace("_", "")


def _member(name: str, kind: np.dtype) -> str:
    if kind.char == "S":
        return "char {}[{}];".format(name, kind.itemsize)
    if kind.subdtype is not None:
        base, shape = kind.subdtype
        return "{} {}[{}];".format(_SCALARS[base], name, shape[0])
    struct = [other for other, dtype in declaring.STRUCTS.items() if dtype == kind]
    return "{} {};".format(struct[0] if struct else _SCALARS[kind], name)


def _struct(struct: str) -> Iterator[str]:
    dtype = declaring.STRUCTS[struct]
    fields = sorted((dtype.fields[name][1], name, dtype.fields[name][0]) for name in dtype.names)
    yield "struct {} {{".format(struct)
    end = 0
    for offset, name, kind in fields + [(dtype.itemsize, "", np.dtype([]))]:
        if offset > end:
            yield "  std::uint8_t unused{}[{}];".format(end, offset - end)
        if name:
            yield "  {}  // {}".format(_member(name, kind), declaring.COMMENTS[struct][name])
        end = offset + kind.itemsize
    yield "};"
    yield 'static_assert(sizeof({0}) == {1}, "{0}");'.format(struct, dtype.itemsize)
    yield ""


def layout_header() -> str:
    """Return the content of ``layout.gen.h``."""
    lines = ["namespace layout {", ""]
    lines += ["constexpr {} {} = {};".format(kind, cpp_name(name), getattr(module, name))
              for kind, module, names in _CONSTANTS for name in names]
    lines += ["constexpr std::int64_t kLayoutHash = {};".format(structs.layout_hash()), ""]
    for enum, kind, values in _ENUMS:
        lines += ["enum {} : {} {{".format(enum, kind)]
        lines += ["  {} = {},".format(cpp_name(name), value) for name, value in values.items()] + ["};", ""]
    lines += ["// Descriptions of waits, by WaitsFor.", "constexpr const char* kWaitSentences[] = {"]
    lines += ['  "{}",'.format(words.WAIT_SENTENCES[reason]) for reason in sorted(words.WAIT_SENTENCES)] + ["};", ""]
    for struct in declaring.STRUCTS:
        lines += _struct(struct)
    lines += ["// The arrays of a part, in their order in a frame.", "struct PartArray {",
              "  std::int64_t Part::*field;", "  std::int64_t bytes_per_id;", "};",
              "constexpr PartArray kPartArrays[] = {"]
    lines += ["  {{&Part::{}, {}}},".format(name, size) for name, size in ring_shape.PART_ARRAYS]
    lines += ["};", "", "}  // namespace layout"]
    return _HEADER.format(guard="LAYOUT", includes="#include <cstddef>\n#include <cstdint>", body="\n".join(lines))


def error_codes_header() -> str:
    """Return the content of ``error_codes.gen.h``."""
    lines = [""] + ['constexpr ErrorCode k{0.code} = {{Code::{1}, "{0.code}"}};  // {0.what}'.format(
        error, cpp_name(error.status)) for error in codes.NATIVE_ERRORS]
    before, after = codes.SUPERVISOR_GONE_TEXT.split("{pid}")
    lines += ["", "// The text of kE110, before and after the process id.",
              'constexpr const char* kSupervisorGone[] = {{"{}", "{}"}};'.format(before, after), ""]
    return _HEADER.format(guard="ERROR_CODES", includes='#include "core/core_status.h"', body="\n".join(lines))


def calls_header() -> str:
    """Return the content of ``calls.gen.h``."""
    lines = [""]
    for structure in calls.STRUCTURES:
        lines += ["struct {} {{".format(structure.__name__)]
        lines += ["  {} {};".format(_CALL_TYPES[field[1]], field[0]) for field in structure._fields_] + ["};"]
        lines += ['static_assert(sizeof({0}) == {1}, "{0}");'.format(structure.__name__, ctypes.sizeof(structure)), ""]
    return _HEADER.format(guard="CALLS", includes="#include <cstdint>", body="\n".join(lines))


def generate(folder: Path) -> None:
    """Write the headers below ``folder``. Unchanged headers are not rewritten."""
    texts: Dict[str, str] = {"layout.gen.h": layout_header(), "error_codes.gen.h": error_codes_header(),
                             "calls.gen.h": calls_header()}
    (folder / "core").mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        path = folder / "core" / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


if __name__ == "__main__":
    generate(Path(sys.argv[1]))
