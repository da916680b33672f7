"""System calls that Python 3.7 lacks or wraps differently: futex, memfd, pidfd, prctl, mmap, madvise, renameat2.

The numbers are for x86_64 and aarch64. Arguments are plain integers. Failures raise ``OSError``. ctypes releases the
interpreter lock during a call, so a sleeping futex does not block other threads.
"""
import ctypes
import errno
import fcntl
import mmap
import os
import platform

_NUMBERS = {
    "x86_64": {"futex": 202, "memfd_create": 319, "pidfd_open": 434, "renameat2": 316},
    "aarch64": {"futex": 98, "memfd_create": 279, "pidfd_open": 434, "renameat2": 276},
}
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_MAP_FAILED = ctypes.c_void_p(-1).value

# FUTEX_PRIVATE_FLAG must not be used, because several processes share the word.
_FUTEX_WAIT = 0
_FUTEX_WAKE = 1
_FUTEX_WAKE_OP = 5
_FUTEX_OP_ADD_ONE = (1 << 28) | (1 << 12)  # *word += 1; the comparison only affects a second wake, of 0 threads
_ALL_WAITERS = 0x7FFFFFFF

_MFD_CLOEXEC = 1
_MFD_ALLOW_SEALING = 2
_F_ADD_SEALS = 1033
_F_GET_SEALS = 1034
SEALS = 1 | 2 | 4  #: F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW

_RENAME_EXCHANGE = 2

_PR_SET_CHILD_SUBREAPER = 36
MADV_DONTFORK = 10


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


_futex = _libc["syscall"]  # a separate function object, because declared types halve the time of a call
_futex.restype = ctypes.c_long
_futex.argtypes = [ctypes.c_long, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.POINTER(_Timespec),
                  ctypes.c_void_p, ctypes.c_int]


def _number(name: str) -> int:
    machine = platform.machine()
    if machine not in _NUMBERS:
        raise OSError(errno.ENOSYS, "ascpipe supports the system calls of x86_64 and aarch64, not of " + machine)
    return _NUMBERS[machine][name]


_FUTEX = _NUMBERS.get(platform.machine(), {}).get("futex", -1)  # computed once, because every wait uses it


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, "{}: {}".format(what, os.strerror(number)))
    return result


def futex_wait(address: int, expected: int, timeout_s: float) -> bool:
    """Sleep for at most ``timeout_s`` (monotonic clock) while the 32-bit word at ``address`` equals ``expected``.

    Returns:
        False after a timeout. True after a wake-up, after a spurious wake-up, or if the word was already different.
    """
    whole = int(timeout_s)
    limit = _Timespec(whole, int((timeout_s - whole) * 1e9))
    if _futex(_FUTEX, address, _FUTEX_WAIT, expected, ctypes.byref(limit), None, 0) == 0:
        return True
    number = ctypes.get_errno()
    if number == errno.ETIMEDOUT:
        return False
    if number in (errno.EAGAIN, errno.EINTR):
        return True
    raise OSError(number, "futex wait: " + os.strerror(number))


def futex_wake(address: int) -> int:
    """Wake all threads that sleep on the word at ``address``. Return the number of threads."""
    return _checked(_futex(_FUTEX, address, _FUTEX_WAKE, _ALL_WAITERS, None, None, 0), "futex wake")


def futex_bump_and_wake(address: int) -> int:
    """Add 1 to the word at ``address`` atomically in the kernel, then wake all threads that sleep on this word.

    The supervisor needs this call because it does not load numba and so has no compiled atomics.
    """
    return _checked(_libc.syscall(
        ctypes.c_long(_FUTEX), ctypes.c_void_p(address), ctypes.c_int(_FUTEX_WAKE_OP), ctypes.c_int(_ALL_WAITERS),
        ctypes.c_long(0), ctypes.c_void_p(address), ctypes.c_int(_FUTEX_OP_ADD_ONE)), "futex wake-op")


def memfd_create(name: str) -> int:
    """Create an anonymous memory file that can be sealed, and return its close-on-exec descriptor."""
    return _checked(_libc.syscall(
        ctypes.c_long(_number("memfd_create")), ctypes.c_char_p(name.encode()),
        ctypes.c_uint(_MFD_CLOEXEC | _MFD_ALLOW_SEALING)), "memfd_create")


def add_seals(fd: int) -> None:
    """Seal a memory file, so that no process can change its size or remove the seals."""
    fcntl.fcntl(fd, _F_ADD_SEALS, SEALS)


def seals_of(fd: int) -> int:
    """Return the seals of a memory file, or -1 if ``fd`` is another kind of file."""
    try:
        return fcntl.fcntl(fd, _F_GET_SEALS)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return -1
        raise


def pidfd_open(pid: int) -> int:
    """Return a descriptor that becomes readable when the process exits.

    Raises:
        ProcessLookupError: there is no such process.
        OSError: the kernel does not support the call (ENOSYS, before Linux 5.3), or it failed.
    """
    number = ctypes.c_long(_number("pidfd_open"))
    fd = _checked(_libc.syscall(number, ctypes.c_int(pid), ctypes.c_uint(0)), "pidfd_open")
    os.set_inheritable(fd, False)
    return fd


def adopt_orphans() -> None:
    """Make this process the new parent of its descendants whose parent exits."""
    _checked(_libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0), "prctl(PR_SET_CHILD_SUBREAPER)")


def map_shared(fd: int, size: int) -> int:
    """Map ``size`` bytes of a file, and return the address. The mapping is shared and writable.

    Python's ``mmap`` is not used, because it keeps a duplicate of the descriptor. A forked child would keep the memory
    alive.
    """
    address = _libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, fd, 0)
    _checked(-1 if address == _MAP_FAILED else 0, "mmap")
    return int(address)


def unmap(address: int, size: int) -> None:
    """Unmap memory (munmap). The address must not be used afterwards."""
    _checked(_libc.munmap(address, size), "munmap")


def advise(address: int, length: int, advice: int) -> None:
    """Call madvise(2)."""
    _checked(_libc.madvise(address, length, advice), "madvise({})".format(advice))


def exchange_names(directory_fd: int, one: str, other: str) -> None:
    """Exchange two names in a directory atomically (renameat2).

    Raises:
        OSError: the call failed. The errno is EINVAL or ENOSYS if the exchange is not supported.
    """
    directory = ctypes.c_int(directory_fd)
    _checked(_libc.syscall(
        ctypes.c_long(_number("renameat2")), directory, ctypes.c_char_p(os.fsencode(one)), directory,
        ctypes.c_char_p(os.fsencode(other)), ctypes.c_uint(_RENAME_EXCHANGE)), "renameat2({}, {})".format(one, other))
