"""Settings of daemons and trainers.

The sources of settings are, in order of increasing precedence: defaults, a file, the environment, the command line.
``defaults.toml`` lists the settings with units and meanings.
"""
import difflib
import ipaddress
import os
import re
import stat
from typing import Any, Dict, List, Mapping, Optional, Tuple

import pydantic
import tomli

from ascpipe.errors import ConfigError, ConfigFileError
from ascpipe.errors.base import shown

DEFAULTS_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "defaults.toml")
ENVIRONMENT_PREFIX = "ASCPIPE_"
FILE_VARIABLE = ENVIRONMENT_PREFIX + "CONFIG"
METRICS_SUFFIX = ".prom"  #: suffix of files that the node exporter reads

#: variables that are not settings; see names.py, ascpipe/checkpoint, ascpipe/ranks.py and FAST_INPUT
OTHER_VARIABLES = frozenset(ENVIRONMENT_PREFIX + name for name in (
    "NAME", "CONFIG", "ALLOW_UNVERIFIED", "ALLOW_MISSING", "RANKS_FOLDER", "LAUNCHER_PORT", "FAST_INPUT", "PLAN"))
FAST_INPUT = ENVIRONMENT_PREFIX + "FAST_INPUT"  #: read by tfops/src/graph/input_pass.cc
FREE_PREFIX = ENVIRONMENT_PREFIX + "X_"  #: prefix of user variables, which daemons inherit and ascpipe ignores

# Kubernetes sets environment variables for the services of a namespace. Their names are the name of the
# service in capitals, followed by one of these suffixes, or by _PORT if the value is an address. For a
# service named ascpipe-metrics, the variable with _PORT has the name of a setting (metrics_port).
_OF_A_SERVICE = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$")
_ADDRESS_OF_A_SERVICE = re.compile(r"(tcp|udp|sctp)://")

DEFAULTS = "the defaults"  #: origin of settings that were not given
_MAX_FILE_BYTES = 1 << 20
_MAX_TEXT = 4096
_MAX_BITS = 64  #: maximum length of an integer
_MOST_PROCESSOR = 1023  # highest number in a CPU mask of the kernel's usual size
_PROCESSORS = re.compile(r"^(\d{1,4})(?:-(\d{1,4}))?$")


class Settings(pydantic.BaseModel):
    """All settings of a daemon and of a trainer. The object is immutable."""

    workers: int = pydantic.Field(ge=1, le=16)
    table_workers: int = pydantic.Field(ge=1, le=16)
    ring_bytes: int = pydantic.Field(ge=1 << 16, le=1 << 42)
    ring_percent: int = pydantic.Field(ge=1, le=90)
    ring_frames: int = pydantic.Field(ge=1, le=64)
    look_ahead: int = pydantic.Field(ge=1, le=60)
    plan_ahead: int = pydantic.Field(ge=1, le=8)
    spin_us: int = pydantic.Field(ge=0, le=10_000)
    save_log_bytes: int = pydantic.Field(ge=1 << 20, le=1 << 42)
    wait_timeout_s: float = pydantic.Field(gt=0, le=7 * 24 * 3600)
    worker_patience_s: float = pydantic.Field(ge=0, le=7 * 24 * 3600)
    disk_patience_s: float = pydantic.Field(ge=0, le=7 * 24 * 3600)
    cache_dir: pydantic.StrictStr
    timeline_spans: int = pydantic.Field(ge=0, le=1_000_000)
    bind_cpu: pydantic.StrictStr
    hash_seed: int = pydantic.Field(ge=0, le=2**63 - 1)
    metrics_port: int = pydantic.Field(ge=0, le=65535)
    metrics_address: pydantic.StrictStr
    metrics_file: pydantic.StrictStr
    dashboard: int = pydantic.Field(ge=0, le=1)
    dashboard_port: int = pydantic.Field(ge=0, le=65535)
    recorded_runs: int = pydantic.Field(ge=0, le=1000)
    eviction_log: pydantic.StrictStr
    eviction_log_mb: int = pydantic.Field(ge=1, le=1_000_000)
    summary_s: float = pydantic.Field(ge=0, le=7 * 24 * 3600)
    start_line: int = pydantic.Field(ge=0, le=1)
    _origins: Mapping[str, str] = pydantic.PrivateAttr({})

    @property
    def read_ahead(self) -> int:
        """Return the recommended prefetch depth of a dataset in batches: ``look_ahead`` + 2 * ``plan_ahead``."""
        return self.look_ahead + 2 * self.plan_ahead

    def table_worker_of(self, table: int) -> int:
        """Return the index of the table worker that owns a table."""
        return table % self.table_workers

    def is_given(self, name: str) -> bool:
        """Return whether the user has set a setting, even if the value equals the default."""
        return self.origin_of(name) != DEFAULTS

    def origin_of(self, name: str) -> str:
        """Return a phrase that names the source of a setting's value, such as ``"the command line"``."""
        return self._origins.get(name, DEFAULTS)

    @pydantic.validator("ring_bytes", "save_log_bytes", pre=True)
    def _may_have_a_unit(cls, value: Any) -> Any:  # noqa: N805
        return size(value) if isinstance(value, str) else value

    @pydantic.validator("bind_cpu")
    def _is_a_list_of_processors(cls, value: str) -> str:  # noqa: N805  (pydantic calls it with the class)
        processors(value)
        return value

    @pydantic.validator("metrics_address")
    def _is_an_address(cls, value: str) -> str:  # noqa: N805
        return str(ipaddress.ip_address(value))  # host names are not allowed, since their addresses may change

    @pydantic.validator("metrics_file")
    def _is_a_file_for_a_collector(cls, value: str) -> str:  # noqa: N805
        if value and not (os.path.isabs(value) and value.endswith(METRICS_SUFFIX)):
            raise ValueError("write an absolute path that ends in {}: collectors read no other files, and the daemon "
                             "has another working directory".format(METRICS_SUFFIX))
        return value

    @pydantic.validator("eviction_log")
    def _is_an_absolute_path(cls, value: str) -> str:  # noqa: N805
        if value and (not os.path.isabs(value) or value.endswith("/")):
            raise ValueError("write an absolute path of a file: the daemon has another working directory")
        return value

    class Config:
        extra = "forbid"
        allow_mutation = False


def load_settings(options: Optional[Mapping[str, Any]] = None,
                  environment: Optional[Mapping[str, str]] = None) -> Settings:
    """Read the current settings.

    A relative path in $ASCPIPE_CONFIG is made absolute in ``os.environ``, since daemons have another working directory.

    Args:
        options: settings from the command line. None values are ignored.
        environment: ``os.environ`` by default.

    Raises:
        ConfigFileError: the file of $ASCPIPE_CONFIG is missing or not TOML.
        ConfigError: a name or value is invalid. The message contains the origin of the setting.
    """
    environment = os.environ if environment is None else environment
    if environment is os.environ and environment.get(FILE_VARIABLE):
        os.environ[FILE_VARIABLE] = os.path.abspath(environment[FILE_VARIABLE])
    environment = {name: value for name, value in environment.items() if not _is_of_a_service(name, value)}
    _require_known(environment)
    values: Dict[str, Any] = {}
    origins: Dict[str, str] = {}

    def add(new: Mapping[str, Any], origin: str) -> None:
        values.update(new)
        origins.update(dict.fromkeys(new, origin))

    add(_read_toml(DEFAULTS_FILE), DEFAULTS)
    if environment.get(FILE_VARIABLE):
        add(_read_toml(environment[FILE_VARIABLE]), environment[FILE_VARIABLE])
    for name in Settings.__fields__:
        variable = ENVIRONMENT_PREFIX + name.upper()
        if variable in environment:
            add({name: environment[variable]}, "the environment ({})".format(variable))
    add({name: value for name, value in (options or {}).items() if value is not None}, "the command line")
    return _checked(values, origins)


def size(text: str) -> int:
    """Parse a size such as ``"268435456"``, ``"128MiB"`` or ``"1GB"``, and return the number of bytes.

    Raise ``ValueError`` if the string is not a size.
    """
    try:
        return int(pydantic.ByteSize.validate(text))
    except (ValueError, OverflowError, pydantic.errors.PydanticValueError) as error:
        raise ValueError("{} is not a size. Write bytes, or for example 128MiB (2^20) or 1GB "
                         "(10^9)".format(shown(text))) from error


def _is_of_a_service(name: str, value: str) -> bool:
    """Return whether Kubernetes has set the variable for a service whose name starts with ascpipe."""
    return name.startswith(ENVIRONMENT_PREFIX) and (
        _OF_A_SERVICE.search(name) is not None
        or name.endswith("_PORT") and _ADDRESS_OF_A_SERVICE.match(value) is not None)


def _require_known(environment: Mapping[str, str]) -> None:
    known = {ENVIRONMENT_PREFIX + name.upper() for name in Settings.__fields__} | OTHER_VARIABLES
    for name in sorted(environment):
        if name.startswith(ENVIRONMENT_PREFIX) and name not in known and not name.startswith(FREE_PREFIX):
            near = difflib.get_close_matches(name, known, 1)
            raise ConfigError(name, "the environment", environment[name], "there is no such variable{}".format(
                "; did you mean {}?".format(near[0]) if near else ""))
    if environment.get(FAST_INPUT, "1") not in ("0", "1"):
        raise ConfigError(FAST_INPUT, "the environment", environment[FAST_INPUT], "write 0 or 1")


def processors(text: str) -> List[int]:
    """Parse a list of CPUs such as ``"2,4-7"``, and return the CPU numbers. Raise ``ValueError`` if the list is
    invalid.

    An empty string is an empty list.
    """
    if not text:
        return []
    found: List[int] = []
    for part in text.split(","):
        match = _PROCESSORS.match(part)
        first, last = (int(match.group(1)), int(match.group(2) or match.group(1))) if match else (1, 0)
        if not first <= last <= _MOST_PROCESSOR:
            raise ValueError("{} is neither a processor number nor a range. Write for example 2,4-7".format(
                shown(part)))
        found += range(first, last + 1)
    return found


def variables_for(options: Mapping[str, Any]) -> Dict[str, str]:
    """Convert command-line options to environment variables for another process."""
    return {ENVIRONMENT_PREFIX + name.upper(): str(value) for name, value in options.items() if value is not None}


def _read_toml(path: str) -> Dict[str, Any]:
    try:
        # Do not block on a FIFO or a device.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigFileError("", path, "", "it is not a regular file")
            content = file.read(_MAX_FILE_BYTES + 1)
        if len(content) > _MAX_FILE_BYTES:
            raise ConfigFileError("", path, "", "it has more than {} bytes".format(_MAX_FILE_BYTES))
        return tomli.loads(content.decode())
    except OSError as error:
        raise ConfigFileError("", path, "", error.strerror or str(error)) from error
    except (ValueError, RecursionError) as error:  # a ValueError is also raised for a number that Python cannot parse
        raise ConfigFileError("", path, "", "it is not valid TOML: {}".format(error)) from error


def _checked(values: Dict[str, Any], origins: Dict[str, str]) -> Settings:
    for name, value in values.items():
        reason = _refused(name, value)
        if reason:
            raise ConfigError(name, origins[name], value, reason + _limits(name))
    try:
        settings = Settings(**values)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        reason = _no_such(name) if first["type"] == "value_error.extra" else first["msg"]
        raise ConfigError(name, origins[name], values[name], reason + _limits(name)) from error
    settings._origins = origins
    return settings


def _refused(name: str, value: Any) -> str:
    """Return why the setting cannot have the value, or an empty string if the value may be valid."""
    if name not in Settings.__fields__:
        return _no_such(name)
    # pydantic would accept True as 1, and truncate 1.9 to 1
    takes_floats = issubclass(Settings.__fields__[name].type_, float)
    if isinstance(value, bool) or not isinstance(value, (int, float, str)) or (
            isinstance(value, float) and not takes_floats):
        return "a {} was not expected".format(type(value).__name__)
    if isinstance(value, str) and not (len(value) <= _MAX_TEXT and value.isprintable()):
        return "expected at most {} characters, without control characters".format(_MAX_TEXT)
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return "the number is too large"
    return ""


def _no_such(name: str) -> str:
    near = difflib.get_close_matches(name, Settings.__fields__, 1)
    return "there is no such setting{}".format("; did you mean {}?".format(near[0]) if near else "")


def _limits(name: str) -> str:
    if name not in Settings.__fields__:
        return ""
    field = Settings.__fields__[name].field_info
    limits: Tuple[Any, Any] = (field.gt if field.ge is None else field.ge, field.le)
    return "" if limits[1] is None else " (allowed: {} to {})".format(*limits)
