"""Numbers at an address, read one by one."""
import ctypes

_KINDS = {"int64": ctypes.c_int64, "int32": ctypes.c_int32, "uint64": ctypes.c_uint64}


def array_at(address, n, kind):
    number = _KINDS[kind]
    return [number.from_address(address + ctypes.sizeof(number) * i).value for i in range(n)]
