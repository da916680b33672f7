"""Sizes of tables whose rows go to disk."""
import tempfile
from typing import Any, Dict


def on_disk(device: int, disk: int) -> Dict[str, Any]:
    """Arguments of ``create_table``, with as few host rows as there may be; the file is unlinked at once, so that
    nothing is left."""
    return {"device_vocabulary_size": device, "host_vocabulary_size": device, "ssd_vocabulary_size": disk,
            "ssd_data_path": [tempfile.gettempdir()]}
