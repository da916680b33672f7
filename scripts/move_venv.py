"""Makes .venv right where it is now: a copied or moved one still leads to the old place.

    .venv/bin/python scripts/move_venv.py OLD NEW     (paths of the environment)

Packages are found beside the interpreter, wherever that is. What has the path in its text are the scripts in bin/:
``activate``, and the first line of console scripts.
"""
import os
import sys
import tempfile
from pathlib import Path

_LONGEST = 127  # of a first line, in the kernel


def header(python: str) -> str:
    """The first line of a script for this interpreter; more of them where the kernel could not read one."""
    line = "#!{}\n".format(python)
    if " " in python or len(line) > _LONGEST:
        return "#!/bin/sh\n'''exec' \"{}\" \"$0\" \"$@\"\n' '''\n".format(python)
    return line


def moved(text: str, old: str, new: str) -> str:
    """The text of a script for the new place."""
    for name in ("python", "python3", "python3.7"):
        begin = header("{}/bin/{}".format(old, name))
        if text.startswith(begin):
            return header("{}/bin/{}".format(new, name)) + text[len(begin):]
    return text.replace(old, new)


def main() -> None:
    """Rewrites what has the old path."""
    old, new = sys.argv[1:]
    for path in sorted(Path(new, "bin").iterdir()):
        if path.is_symlink() or not path.is_file():
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:  # a program
            continue
        changed = moved(text, old, new)
        if changed != text:
            # A new file in the place of the old one, which another tree may have, too (cp -al).
            fd, beside = tempfile.mkstemp(dir=str(path.parent))
            with open(fd, "w") as file:
                file.write(changed)
            os.chmod(beside, path.stat().st_mode)
            os.replace(beside, str(path))


if __name__ == "__main__":
    main()
