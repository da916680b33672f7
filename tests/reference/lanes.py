"""What the kernel of ``ascpipe/kernels/lanes.py`` must compute."""


def match_lanes(array, first, value):
    return sum(1 << lane for lane in range(8) if array[first + lane] == value)
