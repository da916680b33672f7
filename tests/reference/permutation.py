"""Expected results of ``tfops/src/input/permutation.h``."""

M = 2 ** 64
GOLDEN = 0x9E3779B97F4A7C15
ROUNDS = 8
LEAST_BITS = 6


def mix(x):
    """The finalizer of splitmix64."""
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % M
    x = (x ^ x >> 27) * 0x94D049BB133111EB % M
    return x ^ x >> 31


def permuted(seed, epoch, count, position):
    """The number at a position of a permutation of ``range(count)``."""
    key = mix(mix((seed + GOLDEN) % M) ^ epoch)
    keys = [mix((key + (number + 1) * GOLDEN) % M) for number in range(ROUNDS)]
    bits = max(LEAST_BITS, (count - 1).bit_length())
    low_bits = bits // 2
    number = position
    while True:
        low, high = number % 2 ** low_bits, number >> low_bits
        for place in range(0, ROUNDS, 2):
            high ^= (mix((low + keys[place]) % M) >> 32) % 2 ** (bits - low_bits)
            low ^= (mix((high + keys[place + 1]) % M) >> 32) % 2 ** low_bits
        number = high << low_bits | low
        if number < count:
            return number
