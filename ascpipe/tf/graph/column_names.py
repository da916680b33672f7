"""Names of the tables that stand for variables of feature columns."""
import hashlib
import re

_READABLE = 91  # characters of a table's name, of 100, beside those of the digest


def table_name(variable_name: str) -> str:
    """The name of the table behind a variable: what can be read of it, and a digest, as different ones may read alike.

    Args:
        variable_name: with its scopes, of any length.
    """
    digest = hashlib.sha256(variable_name.encode()).hexdigest()[:8]
    return "{}_{}".format(re.sub(r"\W+", "_", variable_name, flags=re.ASCII)[-_READABLE:], digest)
