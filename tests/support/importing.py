"""Runs import statements as those of a program."""
import runpy
from pathlib import Path
from typing import Any, Dict, Iterable

_EACH = """\
try:
    {statement}
    said[{statement!r}] = ["nothing", ""]
except Exception as error:
    said[{statement!r}] = [isinstance(error, ImportError), str(error)]
"""


def names_after(statement: str, folder: Path) -> Dict[str, Any]:
    """The names of a program of one line, after it has run in this process."""
    program = folder / "statement.py"
    program.write_text(statement)
    return runpy.run_path(str(program))


def program_of(statements: Iterable[str], folder: Path) -> Path:
    """A program that prints, as JSON, by statement: whether its error was an ImportError, and the text; where there
    was none "nothing" and no text."""
    program = folder / "statements.py"
    program.write_text("import json\nsaid = {}\n" + "".join(_EACH.format(statement=one) for one in statements)
                       + "print(json.dumps(said))\n")
    return program
