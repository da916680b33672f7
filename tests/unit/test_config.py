"""Where a setting comes from, and what is said about a bad one."""
import datetime
import os
import re
import socket

import pytest

from ascpipe import config
from ascpipe.errors import ConfigError, ConfigFileError
from tests.support import tree


@pytest.fixture
def write(tmp_path):
    def write_file(text):
        (tmp_path / "settings.toml").write_text(text)
        return {"ASCPIPE_CONFIG": str(tmp_path / "settings.toml")}

    return write_file


def test_the_defaults_are_valid_and_complete():
    assert config.load_settings({}, {}).ring_bytes == 256 << 20


def test_each_origin_is_over_the_one_before(write):
    environment = write("workers = 2\nspin_us = 3\nlook_ahead = 4\n")
    environment.update({"ASCPIPE_SPIN_US": "5", "ASCPIPE_LOOK_AHEAD": "6"})
    settings = config.load_settings({"look_ahead": 7, "plan_ahead": None}, environment)
    assert (settings.workers, settings.spin_us, settings.look_ahead, settings.plan_ahead) == (2, 5, 7, 8)


def test_what_was_set_is_known_also_where_it_is_the_default(write):
    assert not config.load_settings({"workers": None}, {}).is_given("workers")
    assert config.load_settings({"workers": 1}, {}).is_given("workers")
    assert config.load_settings({}, {"ASCPIPE_WORKERS": "1"}).is_given("workers")
    from_file = config.load_settings({}, write("workers = 1\n"))
    assert from_file.is_given("workers") and not from_file.is_given("ring_bytes")


@pytest.mark.parametrize("options, environment, words", [
    ({"workers": 17}, {}, ["E402", "workers", "the command line", "17", "1 to 16"]),
    ({}, {"ASCPIPE_WORKERS": "many"}, ["workers", "ASCPIPE_WORKERS", "many", "integer"]),
    ({}, {"ASCPIPE_RING_BYTES": "10"}, ["ring_bytes", "65536"]),
    ({}, {"ASCPIPE_RING_PERCENT": "0"}, ["ring_percent", "1 to 90"]),
    ({"workers": True}, {}, ["workers", "bool"]),
    ({"workers": 1.5}, {}, ["workers", "float"]),
    ({}, {"ASCPIPE_WAIT_TIMEOUT_S": "0"}, ["wait_timeout_s"]),
    ({"bind_cpu": "0,x"}, {}, ["bind_cpu", "the command line", "'x' is neither a processor number nor a range"]),
    ({}, {"ASCPIPE_BIND_CPU": "5-3"}, ["ASCPIPE_BIND_CPU", "'5-3'", "Write for example 2,4-7"]),
    ({"bind_cpu": "2000"}, {}, ["bind_cpu", "'2000'"]),
    ({"bind_cpu": "1,"}, {}, ["bind_cpu", "''"]),
    ({}, {"ASCPIPE_METRICS_PORT": "65536"}, ["metrics_port", "ASCPIPE_METRICS_PORT", "0 to 65535"]),
    ({"metrics_address": "localhost"}, {}, ["metrics_address", "'localhost' does not appear to be an IPv4 or IPv6"]),
    ({"metrics_file": "a.prom"}, {}, ["metrics_file", "absolute path that ends in .prom"]),
    ({}, {"ASCPIPE_METRICS_FILE": "/a.txt"}, ["ASCPIPE_METRICS_FILE", "absolute path that ends in .prom"]),
    ({}, {"ASCPIPE_SUMMARY_S": "-1"}, ["summary_s"]),
])
def test_a_bad_value_is_named_with_its_origin_and_limits(options, environment, words):
    with pytest.raises(ConfigError) as caught:
        config.load_settings(options, environment)
    for word in words:
        assert word in str(caught.value)


def test_a_misspelt_setting_in_the_file_is_an_error(write):
    with pytest.raises(ConfigError, match=r"'worker' from .*settings.toml.*no such setting"):
        config.load_settings({}, write("worker = 2\n"))


@pytest.mark.parametrize("text", ["workers 2", "\x00"])
def test_a_file_that_is_not_toml_is_an_error(write, text):
    with pytest.raises(ConfigFileError, match="it is not valid TOML"):
        config.load_settings({}, write(text))


def test_a_missing_file_is_an_error_and_not_ignored():
    with pytest.raises(ConfigFileError, match="/none.toml"):
        config.load_settings({}, {"ASCPIPE_CONFIG": "/none.toml"})


def test_options_travel_to_another_process_as_variables():
    given = {"workers": 3, "ring_bytes": 1 << 20, "spin_us": None}
    settings = config.load_settings({}, config.variables_for(given))
    assert (settings.workers, settings.ring_bytes) == (3, 1 << 20)


def test_settings_cannot_be_changed():
    with pytest.raises(TypeError):
        config.load_settings({}, {}).workers = 3


@pytest.mark.parametrize("text, numbers", [("", []), ("3", [3]), ("2,4-7", [2, 4, 5, 6, 7]), ("1,1", [1, 1])])
def test_processors_are_read_from_numbers_and_ranges(text, numbers):
    assert config.processors(text) == numbers


@pytest.mark.parametrize("text, value", [
    ("268435456", 268435456), ("128MiB", 128 << 20), ("1GB", 10**9), ("0.5 GiB", 1 << 29), ("70k", 70000)])
def test_sizes_may_have_a_unit(write, text, value):
    assert config.load_settings({"ring_bytes": text}, {}).ring_bytes == value
    assert config.load_settings({}, write('ring_bytes = "{}"\n'.format(text))).ring_bytes == value


def test_a_size_that_is_none_says_how_to_write_one():
    with pytest.raises(ConfigError, match="'x' is not a size. Write bytes, or for example 128MiB .*allowed: 65536 to"):
        config.load_settings({"ring_bytes": "x"}, {})


def test_an_unknown_variable_is_an_error_that_names_the_nearest():
    with pytest.raises(ConfigError, match="ASCPIPE_WORKER'.*did you mean ASCPIPE_WORKERS"):
        config.load_settings({}, {"ASCPIPE_WORKER": "3"})


@pytest.mark.parametrize("value", ["0", "1"])
def test_the_switch_of_the_fast_parser_is_a_known_variable(value):
    config.load_settings(environment={"ASCPIPE_FAST_INPUT": value})


def test_another_value_of_the_switch_is_refused():
    with pytest.raises(ConfigError, match="ASCPIPE_FAST_INPUT.*'off'.*write 0 or 1"):
        config.load_settings(environment={"ASCPIPE_FAST_INPUT": "off"})


def test_variables_that_are_no_settings_and_those_of_others_are_let_be():
    config.load_settings({}, {"ASCPIPE_NAME": "mine", "ASCPIPE_X_OF_A_LAUNCHER": "1", "OTHER_WORKER": "3"})


def of_a_service(prefix, port):
    """What Kubernetes gives each container for a service."""
    address = "tcp://10.0.0.1:{}".format(port)
    return {prefix + "_SERVICE_HOST": "10.0.0.1", prefix + "_SERVICE_PORT": port, prefix + "_SERVICE_PORT_HTTP": port,
            prefix + "_PORT": address, "{}_PORT_{}_TCP".format(prefix, port): address,
            "{}_PORT_{}_TCP_PROTO".format(prefix, port): "tcp", "{}_PORT_{}_TCP_PORT".format(prefix, port): port,
            "{}_PORT_{}_TCP_ADDR".format(prefix, port): "10.0.0.1",
            "{}_PORT_{}_UDP_ADDR".format(prefix, port): "10.0.0.1"}


@pytest.mark.parametrize("prefix", ["ASCPIPE", "ASCPIPE_METRICS", "ASCPIPE_X_OTHER"])
def test_variables_of_services_of_kubernetes_are_neither_errors_nor_settings(prefix):
    settings = config.load_settings({}, of_a_service(prefix, "9100"))
    assert (settings.metrics_port, settings.is_given("metrics_port")) == (0, False)


def test_a_port_of_metrics_that_is_given_stays_a_setting_beside_services():
    environment = {**of_a_service("ASCPIPE", "80"), "ASCPIPE_METRICS_PORT": "9200"}
    assert config.load_settings({}, environment).metrics_port == 9200


@pytest.mark.parametrize("name, value", [
    ("ASCPIPE_METRICS_PORT", "http://10.0.0.1:9100"), ("ASCPIPE_METRIC_PORT", "9100"),
    ("ASCPIPE_WORKERS", "tcp://10.0.0.1:80"), ("ASCPIPE_SERVICE_HOSTS", "10.0.0.1"),
    ("ASCPIPE_PORT_X_TCP", "tcp://10.0.0.1:80")])
def test_what_only_resembles_a_variable_of_a_service_is_an_error(name, value):
    with pytest.raises(ConfigError, match=name):
        config.load_settings({}, {name: value})


def test_a_relative_file_is_absolute_once_it_was_read(monkeypatch, tmp_path):
    (tmp_path / "here.toml").write_text("workers = 2\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASCPIPE_CONFIG", "here.toml")
    assert config.load_settings().workers == 2
    monkeypatch.chdir("/")
    assert config.load_settings().workers == 2
    assert config.load_settings().origin_of("workers") == str(tmp_path / "here.toml")


def test_every_variable_that_the_product_names_is_known():
    known = {"ASCPIPE_" + name.upper() for name in config.Settings.__fields__} | config.OTHER_VARIABLES
    named = {name for path in tree.python_files(*tree.PRODUCT)
             for name in re.findall(r"\bASCPIPE_[A-Z_]*[A-Z]\b", path.read_text())}
    assert named - known - {"ASCPIPE_CORE"} <= {"ASCPIPE_X"}


def deep(levels):
    found = 1
    for _ in range(levels):
        found = {"a": found}
    return found


MALFORMED = ["", " ", "x" * 10_000, "9" * 5000, "-" + "9" * 5000, "9" * 5000 + "MiB", "1e400", "1e400GiB",
             "nan", "inf", "-inf", "\0", "a\nb", "\x1b[31m", "\ud800", "8\u00b2", "\u0663", "0x10", "1_000",
             "1 2", "\u2028", {}, [], [1], {"a": {"b": 1}}, deep(990), 10 ** 400, -10 ** 400, 1 << 64, 1.5,
             float("nan"), float("inf"), True, b"1",
             datetime.date(2026, 1, 1)]


KINDS = {"workers": int, "ring_bytes": int, "hash_seed": int, "wait_timeout_s": float, "cache_dir": str,
         "metrics_file": str, "metrics_address": str, "bind_cpu": str}


@pytest.mark.parametrize("name", sorted(KINDS))
def test_a_malformed_value_is_an_error_that_names_the_setting_or_a_value_of_its_type(name):
    for value in MALFORMED:
        try:
            found = getattr(config.load_settings({name: value}, {}), name)
        except ConfigError as error:
            assert name in str(error) and len(str(error)) < 1000, value
            str(error).encode()
        else:
            assert type(found) is KINDS[name], (value, found)
            assert str(found) == str(value) or float(found) == float(value), (value, found)
            assert str(found).isprintable(), (value, found)


@pytest.mark.parametrize("text", [
    "a = " + "[" * 5000 + "]" * 5000, ".".join(["a"] * 1000) + " = 1", "ring_bytes = " + "9" * 5000,
    "x = '" + "y" * (2 << 20) + "'", "cache_dir = 3", "workers = 2001-01-01", "[workers]\na = 1", "spin_us = [1]",
    "metrics_address = 3", "\ufeffworkers = 1"], ids=range(10))
def test_a_file_that_makes_no_sense_is_an_error_and_no_crash(write, text):
    with pytest.raises(ConfigError) as caught:
        config.load_settings({}, write(text))
    assert "settings.toml" in str(caught.value) and len(str(caught.value)) < 1000


def test_a_file_that_never_ends_or_is_none_is_not_read(tmp_path):
    os.mkfifo(str(tmp_path / "fifo"))
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "socket"))
    for path in ("/dev/zero", "/dev/tty", str(tmp_path / "fifo"), str(tmp_path / "socket"), str(tmp_path)):
        with pytest.raises(ConfigFileError):
            config.load_settings({}, {"ASCPIPE_CONFIG": path})
    listening.close()
