"""Function that declares structs in shared memory, with a comment for each field."""
from typing import Dict, Tuple, Union

import numpy as np

#: dtypes by their names in C++, in declaration order
STRUCTS: Dict[str, np.dtype] = {}
#: comments on fields by the names of structs in C++; a comment names the writers and the content of a field
COMMENTS: Dict[str, Dict[str, str]] = {}


def struct(name: str, itemsize: int, **fields: Tuple[Union[str, np.dtype], int, str]) -> np.dtype:
    """Declare a struct of ``itemsize`` bytes. Each field is ``name=(type, offset in bytes, comment)``."""
    dtype = np.dtype({
        "names": list(fields), "formats": [field[0] for field in fields.values()],
        "offsets": [field[1] for field in fields.values()], "itemsize": itemsize,
    })
    STRUCTS[name] = dtype
    COMMENTS[name] = {field: declared[2] for field, declared in fields.items()}
    return dtype
