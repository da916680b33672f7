"""Adapt .venv to its current path. A copied or moved .venv still refers to the old path.

::

    .venv/bin/python scripts/move_venv.py OLD NEW     (paths of the environment)

Python finds packages relative to the interpreter. Only scripts in bin/ contain the path of the environment:
``activate``, and the first lines of console scripts.
"""
import os
import sys
import tempfile
from pathlib import Path

_LONGEST = 127  # the kernel's limit for the length of a first line


def header(python: str) -> str:
    """Return the first line of a script for this interpreter. If the kernel could not read the line, return
    several lines.
    """
    line = "#!{}\n".format(python)
    if " " in python or len(line) > _LONGEST:
        return "#!/bin/sh\n'''exec' \"{}\" \"$0\" \"$@\"\n' '''\n".format(python)
    return line


def moved(text: str, old: str, new: str) -> str:
    """Return the text of a script for the new path."""
    for name in ("python", "python3", "python{}.{}".format(*sys.version_info[:2])):
        begin = header("{}/bin/{}".format(old, name))
        if text.startswith(begin):
            return header("{}/bin/{}".format(new, name)) + text[len(begin):]
    return text.replace(old, new)


def main() -> None:
    """Rewrite the scripts that contain the old path."""
    old, new = sys.argv[1:]
    for path in sorted(Path(new, "bin").iterdir()):
        if path.is_symlink() or not path.is_file():
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:  # a binary program
            continue
        changed = moved(text, old, new)
        if changed != text:
            # Replace the file, because another tree may have a hard link to the old file (cp -al).
            fd, beside = tempfile.mkstemp(dir=str(path.parent))
            with open(fd, "w") as file:
                file.write(changed)
            os.chmod(beside, path.stat().st_mode)
            os.replace(beside, str(path))


if __name__ == "__main__":
    main()
