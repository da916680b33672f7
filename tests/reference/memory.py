"""The numbers that lie at an address, read one by one."""
import ctypes


def longs_at(address, n):
    return [ctypes.c_int64.from_address(address + 8 * i).value for i in range(n)]


def ints_at(address, n):
    return [ctypes.c_int32.from_address(address + 4 * i).value for i in range(n)]


def words_at(address, n):
    return [ctypes.c_uint64.from_address(address + 8 * i).value for i in range(n)]
