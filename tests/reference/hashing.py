"""Expected results of the kernels of ``ascpipe/kernels/hashing.py``."""

M = 2**64


def spread_of(seed):
    """Return the first three numbers of splitmix64."""
    numbers = []
    for place in (1, 2, 3):
        mixed = (seed + place * 0x9E3779B97F4A7C15) % M
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 % M
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % M
        numbers.append(mixed ^ mixed >> 31)
    return tuple(numbers)


def hash_key(key, spread):
    first, second, third = (int(number) for number in spread)
    word = key % M
    mixed = ((word + first) * ((word >> 32) + second) + third) % M >> 32
    return (mixed ^ mixed >> 15) * 0x9E3779B1 % 2**32


def home_cells(keys, bits, spread):
    return [hash_key(key, spread) >> 32 - bits for key in keys]
