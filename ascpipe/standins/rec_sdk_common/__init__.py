"""Stand-in for what the incumbent's packages share."""
from ascpipe import standins

standins.stand_in(__name__)
