"""Effects and results of atomic operations without other processes; arrays are lists."""


def load_acquire_u32(array, index):
    return array[index]


def exchange_u32(array, index, value):
    old, array[index] = array[index], value
    return old


def add_u32(array, index, value):
    old, array[index] = array[index], (array[index] + value) % 2 ** 32
    return old


def compare_exchange_u32(array, index, expected, desired):
    if array[index] != expected:
        return False
    array[index] = desired
    return True


def load_acquire_i64(array, index):
    return array[index]


def store_release_i64(array, index, value):
    array[index] = value


def exchange_i64(array, index, value):
    old, array[index] = array[index], value
    return old
