"""What the reference has and ascpipe does not have yet: refused by name, never ignored."""
from ascpipe.errors import NotBuiltYetError

__all__ = ["NotBuiltYetError"]
