"""Stand-in for the shared package of the incumbent."""
from ascpipe import standins

standins.stand_in(__name__)
