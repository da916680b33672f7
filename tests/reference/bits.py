"""Expected results of the kernels of ``ascpipe/kernels/bits.py``."""


def multiply_wrapping(a, b):
    return (a * b) % 2**64


def add_wrapping(a, b):
    return (a + b) % 2**64


def lowest_bit(word):
    return min(bit for bit in range(64) if word >> bit & 1)


def frame_bit(number):
    return 1 << number % 64
