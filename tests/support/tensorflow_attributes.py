"""What is replaced in TensorFlow: functions and properties of all its modules and of the classes in them."""
import inspect
import sys
import types
from typing import Any, Dict, List

_PACKAGES = ("tensorflow_core.", "tensorflow.python", "tensorflow_estimator.", "keras.src.",
             "tensorflow._api.v2.compat.v1.train")
_OF_PYTHON = ("__weakref__", "__dict__", "__doc__", "__module__")


def attributes() -> Dict[str, Any]:
    """Return every attribute of the modules that are loaded now, by ``module.attribute`` or ``module.Class.attribute``;
    an attribute that comes later, of a class that is known, is one more."""
    found: Dict[str, Any] = {}
    for name, module in list(sys.modules.items()):
        if not name.startswith(_PACKAGES) or not isinstance(module, types.ModuleType):
            continue
        for key, value in list(vars(module).items()):
            if key.startswith("__"):
                continue
            found["{}.{}".format(_short(module.__name__), key)] = value
            if inspect.isclass(value) and str(value.__module__).startswith(("tensorflow", "keras")):
                found.update(("{}.{}.{}".format(_short(value.__module__), value.__qualname__, each), of_class)
                             for each, of_class in list(vars(value).items()) if each not in _OF_PYTHON)
    return found


def changed(before: Dict[str, Any], after: Dict[str, Any]) -> List[str]:
    """Return the names of functions and properties that are others, gone, or new in a class.

    Modules that were loaded since do not count, nor do objects in which TensorFlow keeps what it has done.
    """
    return sorted(name for name in {**before, **after} if before.get(name) is not after.get(name)
                  and (name in before or name.rpartition(".")[0] in before)
                  and any(callable(each) or isinstance(each, property) for each in (before.get(name), after.get(name))))


def _short(module: str) -> str:
    return module.replace("tensorflow_core", "tensorflow")
