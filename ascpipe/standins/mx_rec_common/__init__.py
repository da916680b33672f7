"""Stand-in for ``mx_rec_common``, the shared package of older versions of Rec SDK."""
from ascpipe import standins

standins.stand_in(__name__)
