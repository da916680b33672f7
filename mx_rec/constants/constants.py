"""Names of graph collections, Rec SDK's modes, and a base class for enumerations in programs.

The value of each collection name is the name itself.
"""
import enum
from typing import Any, Type, TypeVar

_Member = TypeVar("_Member", bound="BaseEnum")

ASCEND_GLOBAL_HASHTABLE_COLLECTION = "ASCEND_GLOBAL_HASHTABLE_COLLECTION"
ASCEND_CUTTING_POINT_INITIALIZER = "ASCEND_CUTTING_POINT_INITIALIZER"
ASCEND_SPARSE_LOOKUP_ENTRANCE = "ASCEND_SPARSE_LOOKUP_ENTRANCE"
ASCEND_SPARSE_LOOKUP_ID_OFFSET = "ASCEND_SPARSE_LOOKUP_ID_OFFSET"
ASCEND_SPARSE_LOOKUP_LOCAL_EMB = "ASCEND_SPARSE_LOOKUP_LOCAL_EMB"
ASCEND_TIMESTAMP = "ASCEND_TIMESTAMP"
APPLY_GRADIENTS_STRATEGY = "APPLY_GRADIENTS_STRATEGY"
ASCEND_SPARSE_LOOKUP_UNIQUE_KEYS = "ASCEND_SPARSE_LOOKUP_UNIQUE_KEYS"

#: Arguments for ``import_host_pipeline_ops``, which ignores them because there is only one library.
LIBREC_CPU_SO = "librec_cpu.so"
LIBREC_EOS_OPS_SO = "librec_eos_ops.so"
LIBREC_TF_REC_V1_CPU_SO = "librec_tf_rec_v1_cpu.so"

__all__ = ["APPLY_GRADIENTS_STRATEGY", "ASCEND_CUTTING_POINT_INITIALIZER", "ASCEND_GLOBAL_HASHTABLE_COLLECTION",
           "ASCEND_SPARSE_LOOKUP_ENTRANCE", "ASCEND_SPARSE_LOOKUP_ID_OFFSET", "ASCEND_SPARSE_LOOKUP_LOCAL_EMB",
           "ASCEND_SPARSE_LOOKUP_UNIQUE_KEYS", "ASCEND_TIMESTAMP", "ApplyGradientsStrategy", "BaseEnum",
           "LIBREC_CPU_SO", "LIBREC_EOS_OPS_SO", "LIBREC_TF_REC_V1_CPU_SO", "MxRecMode"]


class BaseEnum(enum.Enum):
    """Enumeration with a method that finds members by value."""

    @classmethod
    def mapping(cls: Type[_Member], key: Any) -> _Member:
        """Return the member with the value ``key``. Raise ``KeyError`` if there is no such member."""
        for member in cls:
            if member.value == key:
                return member
        raise KeyError("{} has no member with the value {!r}. Its values are {}".format(
            cls.__name__, key, ", ".join(repr(member.value) for member in cls)))


class MxRecMode(BaseEnum):
    """Modes of Rec SDK. ascpipe has only one mode."""

    ASC = "ASC"


class ApplyGradientsStrategy(BaseEnum):
    """Strategy for gradients of duplicate keys in older versions of Rec SDK. ascpipe always sums the gradients."""

    DIRECT_APPLY = "direct_apply"
    SUM_SAME_ID_GRADIENTS_AND_APPLY = "sum_same_id_gradients_and_apply"
