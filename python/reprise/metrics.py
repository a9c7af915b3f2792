"""The engine's statistics as vLLM's metric objects."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

from reprise import _core


@dataclasses.dataclass
class Metric:
    name: str
    labels: dict[str, str]


@dataclasses.dataclass
class Counter(Metric):
    """A number that never decreases."""

    value: int


@dataclasses.dataclass
class Vector(Metric):
    """A list of counters, one per position."""

    values: list[int]


@dataclasses.dataclass
class Gauge(Metric):
    """The current value of a quantity."""

    value: float


@dataclasses.dataclass
class Histogram(Metric):
    """`buckets[b]` counts the observations up to `b`; "+Inf" counts all."""

    count: int
    sum: float
    buckets: dict[str, int]


_GAUGES = {
    "vllm:num_requests_running": "num_requests_running",
    "vllm:num_requests_waiting": "num_requests_waiting",
    "vllm:kv_cache_usage_perc": "kv_cache_usage",
}
_COUNTERS = {
    "vllm:prompt_tokens": "prompt_tokens",
    "vllm:generation_tokens": "generation_tokens",
    "vllm:prefix_cache_queries": "prefix_cache_queries",
    "vllm:prefix_cache_hits": "prefix_cache_hits",
    "vllm:num_preemptions": "num_preemptions",
}


def metrics_of(engine: _core.Engine, labels: dict[str, str]) -> list[Metric]:
    """Returns the metrics. The names are those of /metrics; counters have no `_total`."""
    stats = engine.stats()
    metrics: list[Metric] = [Gauge(name, labels, float(stats[key])) for name, key in _GAUGES.items()]
    metrics += [Counter(name, labels, stats[key]) for name, key in _COUNTERS.items()]
    for reason in ("stop", "length", "abort", "error"):
        finished = labels | {"finished_reason": reason}
        metrics.append(Counter("vllm:request_success", finished, stats[f"finished_{reason}"]))
    for name, values in engine.histograms().items():
        metrics.append(_histogram(f"vllm:{name}", labels, values))
    return metrics


def _histogram(name: str, labels: dict[str, str], values: dict[str, Any]) -> Histogram:
    keys = [*(str(bound) for bound in values["bounds"]), "+Inf"]
    buckets = dict(zip(keys, itertools.accumulate(values["counts"])))
    return Histogram(name, labels, values["count"], values["sum"], buckets)
