"""Stand-in: the names of the adapter in one place."""
from ascpipe import standins

standins.stand_in(__name__)
