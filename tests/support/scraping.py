"""Scrapes the metrics of a daemon."""
import socket
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from ascpipe.metrics import figures


def free_port():
    """A port that no process listens at."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def scrape(port, address="127.0.0.1", timeout_s=10.0):
    """As ``numbers``, of the daemon with this port."""
    with urllib.request.urlopen("http://{}:{}/metrics".format(address, port), timeout=timeout_s) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return numbers(answer.read().decode())


def numbers(text):
    """(name, values of the labels but the daemon's, in the order of their names) -> number."""
    return {(sample.name, *_values(sample.labels)): sample.value
            for family in text_string_to_metric_families(text) for sample in family.samples}


def numbers_of(status):
    """What ``numbers`` should give for an answer to ``status``."""
    return {(metric.name, *_values(dict(zip((figures.DAEMON, *metric.labels), labels)))): number
            for metric in [figures.UP, *figures.METRICS] for labels, number in figures.samples_of(metric, status)}


def _values(labels):
    return [value for label, value in sorted(labels.items()) if label != figures.DAEMON]
