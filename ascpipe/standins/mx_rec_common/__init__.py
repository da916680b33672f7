"""Stand-in for what older versions of the incumbent's packages share."""
from ascpipe import standins

standins.stand_in(__name__)
