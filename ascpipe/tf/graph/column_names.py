"""Names of tables that replace variables of feature columns."""
import hashlib
import re

_READABLE = 91  # a table name has at most 100 characters, 9 of them for "_" and the digest


def table_name(variable_name: str) -> str:
    """Return the name of the table that replaces a variable.

    The name contains the end of the variable's name and a digest. The digest makes the table name unique.
    ``variable_name`` includes scopes and may have any length.
    """
    digest = hashlib.sha256(variable_name.encode()).hexdigest()[:8]
    return "{}_{}".format(re.sub(r"\W+", "_", variable_name, flags=re.ASCII)[-_READABLE:], digest)
