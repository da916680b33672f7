"""Declares a struct of shared memory, with what is known of its fields, and keeps all that were declared."""
from typing import Dict, Tuple, Union

import numpy as np

#: name in C++ -> dtype, in the order of their declarations
STRUCTS: Dict[str, np.dtype] = {}
#: name in C++ -> what is known of each field: its writers, then what it holds
COMMENTS: Dict[str, Dict[str, str]] = {}


def struct(name: str, itemsize: int, **fields: Tuple[Union[str, np.dtype], int, str]) -> np.dtype:
    """A struct of ``itemsize`` bytes with ``name=(type, offset in bytes, comment)`` for each field."""
    dtype = np.dtype({
        "names": list(fields), "formats": [field[0] for field in fields.values()],
        "offsets": [field[1] for field in fields.values()], "itemsize": itemsize,
    })
    STRUCTS[name] = dtype
    COMMENTS[name] = {field: declared[2] for field, declared in fields.items()}
    return dtype
