"""The one door to memory order: atomic loads, stores, exchange, compare-exchange and add.

Python code and kernels that get arrays use the functions with ``_u32`` and ``_i64``: their arguments are ``(array,
index, ...)``; the array is uint32[:] or int64[:], contiguous or not, over shared memory and aligned.  Kernels that get
records use ``load_acquire``, ``exchange`` and ``compare_exchange``: their arguments are ``(record, field, index,
...)``; the field is a constant text, the index 0 unless the field is an array.  All are inlined.  An ordinary
``array[index]`` in a compiled loop is hoisted out of it and never seen to change.

Exchange, compare-exchange and add are sequentially consistent: a full fence.

With NUMBA_DISABLE_JIT the twins below take over; they are atomic within one process only (tests).
The readable version is ``tests/reference/atomics.py``.
"""
from typing import Any

from ascpipe.kernels.compiler import cgutils, intrinsic, ir, is_off, types
from ascpipe.kernels.door import entry

_BYTES = {"uint32": 4, "int64": 8}


def _pointer(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Address of ``array[index]``, no wrap-around and no bounds check."""
    array_type = signature.args[0]
    array = context.make_array(array_type)(context, builder, args[0])
    return cgutils.get_item_pointer(context, builder, array_type, array, [args[1]], wraparound=False)


def _is_word_array(array: Any) -> bool:
    return isinstance(array, types.Array) and array.ndim == 1 and array.dtype.name in _BYTES


def _word_of(record: Any, field: Any) -> Any:
    """numba's type of a word that is a field of a record, or an item of it; None if it is none."""
    if not isinstance(record, types.Record) or not isinstance(field, types.StringLiteral):
        return None
    kind = record.typeof(field.literal_value)
    kind = getattr(kind, "dtype", kind)
    return kind if kind.name in _BYTES else None


def _field_pointer(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Address of ``record[field]``, or of ``record[field][index]``, no wrap-around and no bounds check."""
    record = signature.args[0]
    field = signature.args[1].literal_value
    first = cgutils.get_record_member(
        builder, args[0], record.offset(field), context.get_value_type(_word_of(record, signature.args[1])))
    return builder.gep(first, [args[2]])


@intrinsic
def load_acquire(typing_context, record, field, index):
    """What a field holds, and all that its writer wrote before its release store."""
    word = _word_of(record, field)
    if word is None:
        return None

    def generate(context, builder, signature, args):
        return builder.load_atomic(_field_pointer(context, builder, signature, args), "acquire", _BYTES[word.name])

    return word(record, field, types.intp), generate


@intrinsic
def exchange(typing_context, record, field, index, value):
    """Store ``value`` in a field; returns what was there before."""
    word = _word_of(record, field)
    if word is None:
        return None

    def generate(context, builder, signature, args):
        return builder.atomic_rmw("xchg", _field_pointer(context, builder, signature, args), args[3], "seq_cst")

    return word(record, field, types.intp, word), generate


@intrinsic
def compare_exchange(typing_context, record, field, index, expected, desired):
    """Store ``desired`` in a field if ``expected`` is there; returns whether it was."""
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
    """Store where the row of an entry is, with its state and generation, by one release store of 8 bytes.

    Args:
        known: ENTRY.
        state, generation, home: uint16, uint16 (modulo 2**16), int32; as its fields have them.
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
        """(what holds the word, where in it)"""
        return (record[field], index) if record.dtype[field].shape else (record, field)

    def load_acquire(record, field, index):
        """What a field holds, and all that its writer wrote before its release store."""
        return _load_acquire(*_at(record, field, index))

    def exchange(record, field, index, value):
        """Store ``value`` in a field; returns what was there before."""
        return _exchange(*_at(record, field, index), value)

    def compare_exchange(record, field, index, expected, desired):
        """Store ``desired`` in a field if ``expected`` is there; returns whether it was."""
        return _compare_exchange(*_at(record, field, index), expected, desired)

    def store_home(known, state, generation, home):
        """Store where the row of an entry is, with its state and generation."""
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
    """``array[index]``, and all that its writer wrote before its release store."""
    return _load_acquire(array, index)


@entry(*_SWAP_U32)
def exchange_u32(array, index, value):
    """Store ``value``; returns what was there before.

    Args:
        array: uint32[n]; contiguous or not.
        index: 0 to n - 1.
        value: uint32[]; to be stored.
    """
    return _exchange(array, index, value)


@entry(*_SWAP_U32)
def add_u32(array, index, value):
    """Add ``value`` modulo 2**32; returns what was there before.

    Args:
        array: uint32[n]; contiguous or not.
        index: 0 to n - 1.
        value: uint32[]; to be added.
    """
    return _add(array, index, value)


@entry(*_CAS_U32)
def compare_exchange_u32(array, index, expected, desired):
    """Store ``desired`` if ``expected`` is there; returns whether it was.

    Args:
        array: uint32[n]; contiguous or not.
        index: 0 to n - 1.
        expected, desired: uint32[]; what must be there, and what replaces it.
    """
    return _compare_exchange(array, index, expected, desired)


@entry(*_LOAD_I64)
def load_acquire_i64(array, index):
    """``array[index]``, and all that its writer wrote before its release store."""
    return _load_acquire(array, index)


@entry(*_STORE_I64)
def store_release_i64(array, index, value):
    """Publish ``value`` after everything written before.  Not a full fence: a bell needs ``exchange_i64``.

    Args:
        array: int64[n]; contiguous or not.
        index: 0 to n - 1.
        value: int64[]; to be stored.
    """
    _store_release(array, index, value)


@entry(*_SWAP_I64)
def exchange_i64(array, index, value):
    """Store ``value``; returns what was there before.

    Args:
        array: int64[n]; contiguous or not.
        index: 0 to n - 1.
        value: int64[]; to be stored.
    """
    return _exchange(array, index, value)
