"""Atomic loads, stores, exchange, compare-exchange and add. All other Python code of ascpipe must use these functions
to order memory accesses.

Functions whose names end in ``_u32`` and ``_i64`` have the arguments ``(array, index, ...)``. They are for Python code
and for kernels with array arguments. Such an array is an aligned uint32[:] or int64[:] in shared memory, contiguous or
not. ``load_acquire``, ``exchange`` and ``compare_exchange`` have the arguments ``(record, field, index, ...)`` and are
for kernels with record arguments. ``field`` is a constant string, and ``index`` is 0 unless the field is an array. All
functions are inlined. The compiler would move an ordinary ``array[index]`` out of a loop, and the loop would never
detect a change.

Exchange, compare-exchange and add are sequentially consistent, and therefore full fences.

With NUMBA_DISABLE_JIT (tests), Python functions that are not atomic replace all these functions. The plain-Python
version is ``tests/reference/atomics.py``.
"""
from typing import Any

from ascpipe.kernels.compiler import cgutils, intrinsic, ir, is_off, types
from ascpipe.kernels.door import entry

_BYTES = {"uint32": 4, "int64": 8}


def _pointer(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Return the address of ``array[index]``. A negative or too large index is not detected."""
    array_type = signature.args[0]
    array = context.make_array(array_type)(context, builder, args[0])
    return cgutils.get_item_pointer(context, builder, array_type, array, [args[1]], wraparound=False)


def _is_word_array(array: Any) -> bool:
    return isinstance(array, types.Array) and array.ndim == 1 and array.dtype.name in _BYTES


def _word_of(record: Any, field: Any) -> Any:
    """Return numba's type of a field or of its elements, if this type is uint32 or int64. Otherwise, return None."""
    if not isinstance(record, types.Record) or not isinstance(field, types.StringLiteral):
        return None
    kind = record.typeof(field.literal_value)
    kind = getattr(kind, "dtype", kind)
    return kind if kind.name in _BYTES else None


def _field_pointer(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Return the address of ``record[field]`` or ``record[field][index]``. A wrong index is not detected."""
    record = signature.args[0]
    field = signature.args[1].literal_value
    first = cgutils.get_record_member(
        builder, args[0], record.offset(field), context.get_value_type(_word_of(record, signature.args[1])))
    return builder.gep(first, [args[2]])


@intrinsic
def load_acquire(typing_context, record, field, index):
    """Return the value of a field. Data that was written before this value was stored is visible after the call."""
    word = _word_of(record, field)
    if word is None:
        return None

    def generate(context, builder, signature, args):
        return builder.load_atomic(_field_pointer(context, builder, signature, args), "acquire", _BYTES[word.name])

    return word(record, field, types.intp), generate


@intrinsic
def exchange(typing_context, record, field, index, value):
    """Store ``value`` in a field, and return the previous value."""
    word = _word_of(record, field)
    if word is None:
        return None

    def generate(context, builder, signature, args):
        return builder.atomic_rmw("xchg", _field_pointer(context, builder, signature, args), args[3], "seq_cst")

    return word(record, field, types.intp, word), generate


@intrinsic
def compare_exchange(typing_context, record, field, index, expected, desired):
    """Store ``desired`` in a field if the value is ``expected``. Return whether ``desired`` was stored."""
    word = _word_of(record, field)
    if word is None:
        return None

    def generate(context, builder, signature, args):
        pair = builder.cmpxchg(_field_pointer(context, builder, signature, args), args[3], args[4], "seq_cst",
                               "seq_cst")
        return builder.extract_value(pair, 1)

    return types.boolean(record, field, types.intp, word, word), generate


@intrinsic
def store_home(typing_context, known, state, generation, home):
    """Store the state, generation and home row of an entry with one release store of 8 bytes.

    Args:
        known: ENTRY.
        state, generation, home: values of the entry's fields: uint16, uint16 (modulo 2**16), int32.
    """
    if not isinstance(known, types.Record):
        return None

    def generate(context, builder, signature, args):
        word = ir.IntType(64)
        offset = signature.args[0].offset("state")
        low, middle, high = (builder.trunc(value, ir.IntType(bits)) for value, bits in zip(args[1:], (16, 16, 32)))
        value = builder.or_(builder.zext(low, word), builder.shl(builder.zext(middle, word), word(16)))
        value = builder.or_(value, builder.shl(builder.zext(high, word), word(32)))
        builder.store_atomic(value, cgutils.get_record_member(builder, args[0], offset, word), "release", 8)
        return context.get_dummy_value()

    return types.void(known, types.int64, types.int64, types.int64), generate


@intrinsic
def _load_acquire(typing_context, array, index):
    if not _is_word_array(array):
        return None

    def generate(context, builder, signature, args):
        return builder.load_atomic(_pointer(context, builder, signature, args), "acquire", _BYTES[array.dtype.name])

    return array.dtype(array, types.intp), generate


@intrinsic
def _store_release(typing_context, array, index, value):
    if not _is_word_array(array):
        return None

    def generate(context, builder, signature, args):
        builder.store_atomic(args[2], _pointer(context, builder, signature, args), "release", _BYTES[array.dtype.name])
        return context.get_dummy_value()

    return types.void(array, types.intp, array.dtype), generate


@intrinsic
def _exchange(typing_context, array, index, value):
    if not _is_word_array(array):
        return None

    def generate(context, builder, signature, args):
        return builder.atomic_rmw("xchg", _pointer(context, builder, signature, args), args[2], "seq_cst")

    return array.dtype(array, types.intp, array.dtype), generate


@intrinsic
def _add(typing_context, array, index, value):
    if not _is_word_array(array):
        return None

    def generate(context, builder, signature, args):
        return builder.atomic_rmw("add", _pointer(context, builder, signature, args), args[2], "seq_cst")

    return array.dtype(array, types.intp, array.dtype), generate


@intrinsic
def _compare_exchange(typing_context, array, index, expected, desired):
    if not _is_word_array(array):
        return None

    def generate(context, builder, signature, args):
        pair = builder.cmpxchg(_pointer(context, builder, signature, args), args[2], args[3], "seq_cst", "seq_cst")
        return builder.extract_value(pair, 1)

    return types.boolean(array, types.intp, array.dtype, array.dtype), generate


_LOAD_U32 = ["uint32(uint32[::1], int64)", "uint32(uint32[:], int64)"]
_SWAP_U32 = ["uint32(uint32[::1], int64, uint32)", "uint32(uint32[:], int64, uint32)"]
_CAS_U32 = ["boolean(uint32[::1], int64, uint32, uint32)", "boolean(uint32[:], int64, uint32, uint32)"]
_LOAD_I64 = ["int64(int64[::1], int64)", "int64(int64[:], int64)"]
_STORE_I64 = ["void(int64[::1], int64, int64)", "void(int64[:], int64, int64)"]
_SWAP_I64 = ["int64(int64[::1], int64, int64)", "int64(int64[:], int64, int64)"]

if is_off():

    def _at(record, field, index):
        """Return (array, index) if the field is an array, and (record, field) otherwise."""
        return (record[field], index) if record.dtype[field].shape else (record, field)

    def load_acquire(record, field, index):
        """Return the value of a field. Data that was written before this value was stored is visible after the call."""
        return _load_acquire(*_at(record, field, index))

    def exchange(record, field, index, value):
        """Store ``value`` in a field, and return the previous value."""
        return _exchange(*_at(record, field, index), value)

    def compare_exchange(record, field, index, expected, desired):
        """Store ``desired`` in a field if the value is ``expected``. Return whether ``desired`` was stored."""
        return _compare_exchange(*_at(record, field, index), expected, desired)

    def store_home(known, state, generation, home):
        """Store the state, generation and home row of an entry with one release store of 8 bytes.

        Args:
            known: ENTRY.
            state, generation, home: values of the entry's fields: uint16, uint16 (modulo 2**16), int32.
        """
        known["state"] = int(state)
        known["generation"] = int(generation) & 0xFFFF
        known["home"] = int(home)

    def _load_acquire(array, index):
        return array[index]

    def _store_release(array, index, value):
        array[index] = value

    def _exchange(array, index, value):
        old = array[index]
        array[index] = value
        return old

    def _add(array, index, value):
        old = array[index]
        array[index] = (int(old) + int(value)) & 0xFFFFFFFF
        return old

    def _compare_exchange(array, index, expected, desired):
        if array[index] != expected:
            return False
        array[index] = desired
        return True


@entry(*_LOAD_U32)
def load_acquire_u32(array, index):
    """Return ``array[index]``. Data that was written before this value was stored is visible after the call."""
    return _load_acquire(array, index)


@entry(*_SWAP_U32)
def exchange_u32(array, index, value):
    """Store ``value`` in ``array[index]``, and return the previous value.

    Args:
        array: uint32[n]; contiguous or not.
        index: 0 to n - 1.
        value: uint32[].
    """
    return _exchange(array, index, value)


@entry(*_SWAP_U32)
def add_u32(array, index, value):
    """Add ``value`` to ``array[index]`` modulo 2**32, and return the previous value.

    Args:
        array: uint32[n]; contiguous or not.
        index: 0 to n - 1.
        value: uint32[].
    """
    return _add(array, index, value)


@entry(*_CAS_U32)
def compare_exchange_u32(array, index, expected, desired):
    """Store ``desired`` in ``array[index]`` if ``array[index]`` is ``expected``. Return whether ``desired`` was stored.

    Args:
        array: uint32[n]; contiguous or not.
        index: 0 to n - 1.
        expected, desired: uint32[].
    """
    return _compare_exchange(array, index, expected, desired)


@entry(*_LOAD_I64)
def load_acquire_i64(array, index):
    """Return ``array[index]``. Data that was written before this value was stored is visible after the call."""
    return _load_acquire(array, index)


@entry(*_STORE_I64)
def store_release_i64(array, index, value):
    """Store ``value`` in ``array[index]``. A process that loads ``value`` also sees all data that this process has
    written before the call.

    This is a release store, not a full fence. To publish a value before you ring a bell, use ``exchange_i64``.

    Args:
        array: int64[n]; contiguous or not.
        index: 0 to n - 1.
        value: int64[].
    """
    _store_release(array, index, value)


@entry(*_SWAP_I64)
def exchange_i64(array, index, value):
    """Store ``value`` in ``array[index]``, and return the previous value.

    Args:
        array: int64[n]; contiguous or not.
        index: 0 to n - 1.
        value: int64[].
    """
    return _exchange(array, index, value)
