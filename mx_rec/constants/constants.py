"""Names of collections, the value of each being its name; and what programs build their own constants with."""
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

#: An argument for ``import_host_pipeline_ops``; there is one library, whatever the name.
LIBREC_EOS_OPS_SO = "librec_eos_ops.so"


class BaseEnum(enum.Enum):
    """An enumeration whose members are found by their values."""

    @classmethod
    def mapping(cls: Type[_Member], key: Any) -> _Member:
        """The member with a value. Raises ``KeyError``."""
        for member in cls:
            if member.value == key:
                return member
        raise KeyError("{} has no member with the value {!r}; there are {}".format(
            cls.__name__, key, ", ".join(repr(member.value) for member in cls)))
