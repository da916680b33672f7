"""Stand-in for ``rec_sdk_common``, the shared package of Rec SDK."""
from ascpipe import standins

standins.stand_in(__name__)
