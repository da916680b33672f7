"""Names of tables that replace variables of feature columns."""
import hashlib
import re

_READABLE = 91  # characters of a table name before the digest; the limit of a name is 100


def table_name(variable_name: str) -> str:
    """Return the name of the table that replaces a variable.

    The name consists of the readable characters of ``variable_name`` and a digest that makes it unique.

    Args:
        variable_name: includes the scopes; any length.
    """
    digest = hashlib.sha256(variable_name.encode()).hexdigest()[:8]
    return "{}_{}".format(re.sub(r"\W+", "_", variable_name, flags=re.ASCII)[-_READABLE:], digest)
