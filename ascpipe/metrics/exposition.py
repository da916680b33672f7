"""Functions that convert a daemon's answer to ``status`` to the text format of Prometheus."""
from typing import Iterator, Optional

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from ascpipe.metrics.figures import COUNTER, DAEMON, METRICS, UP, Metric, Status, samples_of

CONTENT_TYPE = CONTENT_TYPE_LATEST


def text(daemon: str, status: Optional[Status]) -> bytes:
    """Return all metrics of a daemon in the text format of Prometheus.

    Args:
        daemon: name of the daemon.
        status: answer of the daemon, or None if it did not answer.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Answer(daemon, status))
    return bytes(generate_latest(registry))


class _Answer(Collector):
    def __init__(self, daemon: str, status: Optional[Status]) -> None:
        self._daemon = daemon
        self._status = status

    def collect(self) -> Iterator[Family]:
        up = GaugeMetricFamily(UP.name, UP.text, labels=[DAEMON])
        up.add_metric([self._daemon], float(self._status is not None))
        yield up
        if self._status is not None:
            for metric in METRICS:
                yield _family(metric, self._status)


def _family(metric: Metric, status: Status) -> Family:
    kind = CounterMetricFamily if metric.kind == COUNTER else GaugeMetricFamily
    family = kind(metric.name, metric.text, labels=[DAEMON, *metric.labels])
    for labels, value in samples_of(metric, status):
        family.add_metric(labels, value)
    return family
