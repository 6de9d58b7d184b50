"""Counters, gauges and histograms of a program's own, by Ray's names.

    from miniray.util.metrics import Counter, snapshot
    requests = Counter("requests", description="Served so far.", tag_keys=("route",))
    requests.inc(tags={"route": "/"})
    print(snapshot()["requests"]["values"])

Each process keeps those that were made in it; `snapshot()` has them all, as values of a dict, and `exposition()` as the
text that Prometheus reads. Nothing is sent anywhere: a worker's are asked for by a task or a method that returns its
snapshot.
"""

from __future__ import annotations

import bisect
import threading
from typing import Any

from miniray._core_api import did_you_mean
from miniray._core_api.tracebacks import public_module

_lock = threading.Lock()
_all = {}  # {name: metric} of this process


class Metric:
    """Base of counters, gauges and histograms: a name, and values by tags."""

    kind = "untyped"

    def __init__(self, name, description="", tag_keys=None) -> None:
        if not isinstance(name, str) or not name:
            raise ValueError(f"the name of a metric must be a str with at least one letter, not {name!r}")
        if tag_keys is not None and not isinstance(tag_keys, tuple):
            raise TypeError(f"tag_keys of metric {name!r} must be a tuple of str, not {tag_keys!r}")
        for key in tag_keys or ():
            if not isinstance(key, str):
                raise TypeError(f"tag_keys of metric {name!r} has {key!r}: a tag key must be a str")
        self._name, self._description, self._tag_keys = name, description, tag_keys or ()
        self._default_tags, self._values = {}, {}
        with _lock:
            earlier = _all.get(name)
            # A metric replaces an earlier one of the same name, and continues its values.
            if type(earlier) is type(self):
                self._values = earlier._values
            _all[name] = self

    @property
    def info(self) -> dict[str, Any]:
        """The name, description and tag keys."""
        return {"name": self._name, "description": self._description, "tag_keys": self._tag_keys,
                "default_tags": dict(self._default_tags)}

    def set_default_tags(self, default_tags) -> Metric:
        """Sets the tags of records that give none; returns the metric."""
        self._check_tags(default_tags)
        self._default_tags = dict(default_tags)
        return self

    def _check_tags(self, tags):
        for key, value in tags.items():
            if key not in self._tag_keys:
                raise ValueError(f"Unrecognized tag key {key!r} of metric {self._name!r}{did_you_mean.hint(key, self._tag_keys)}")
            if not isinstance(value, str):
                raise TypeError(f"the tag {key!r} of metric {self._name!r} must be a str, not {value!r}")

    def _key(self, tags):
        """The values of the tags, in the order of their keys."""
        given = tags or {}
        self._check_tags(given)
        merged = {**self._default_tags, **given}
        missing = [key for key in self._tag_keys if key not in merged]
        if missing:
            raise ValueError(f"Missing value for tag key {', '.join(missing)} of metric {self._name!r}")
        return tuple(merged[key] for key in self._tag_keys)

    def _number(self, value):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"the value of metric {self._name!r} must be a number, not {value!r}")
        return float(value)

    def _shown(self, value):
        return value

    def __reduce__(self):
        return _made_there, (type(self), {name: value for name, value in self.info.items() if name != "default_tags"},
                             self._default_tags)


def _made_there(cls, arguments, default_tags):
    """The metric of this name in the receiving process, for a metric that was sent with a function."""
    return cls(**arguments).set_default_tags(default_tags)


class Counter(Metric):
    """A number that only grows."""

    kind = "counter"

    def inc(self, value=1.0, tags=None) -> None:
        """Adds a positive number."""
        if self._number(value) <= 0:
            raise ValueError(f"the value of metric {self._name!r} must be above 0, not {value}: a Counter only grows")
        key = self._key(tags)
        with _lock:
            self._values[key] = self._values.get(key, 0.0) + value


class Gauge(Metric):
    """A number that can be set to any value."""

    kind = "gauge"

    def set(self, value, tags=None) -> None:
        """Sets the value."""
        key = self._key(tags)
        if value is not None:
            with _lock:
                self._values[key] = self._number(value)


class Histogram(Metric):
    """Counts of values up to each boundary, and above the last."""

    kind = "histogram"

    def __init__(self, name, description="", boundaries=None, tag_keys=None) -> None:
        if not boundaries:
            raise ValueError(f"Histogram {name!r} needs boundaries, such as boundaries=[1.0, 2.0]")
        if any(boundary <= 0 for boundary in boundaries) or sorted(boundaries) != list(boundaries):
            raise ValueError(f"boundaries of Histogram {name!r} must be above 0 and ascend, not {boundaries}")
        super().__init__(name, description, tag_keys)
        self.boundaries = [float(boundary) for boundary in boundaries]

    @property
    def info(self) -> dict[str, Any]:
        """The name, description, tag keys and boundaries."""
        return {**super().info, "boundaries": self.boundaries}

    def observe(self, value, tags=None) -> None:
        """Records a value."""
        key, number = self._key(tags), self._number(value)
        with _lock:
            found = self._values.setdefault(key, {"counts": [0] * (len(self.boundaries) + 1), "sum": 0.0, "count": 0})
            found["counts"][bisect.bisect_left(self.boundaries, number)] += 1
            found["sum"] += number
            found["count"] += 1

    def _shown(self, value):
        return {**value, "counts": list(value["counts"])}


def snapshot() -> Any:
    """{name: {"kind", "description", "tag_keys", "values": {tags: value}}} of this process; tags are their values in
    the order of the keys. A histogram's value is {"counts", "sum", "count"}, with "boundaries" beside its values."""
    with _lock:
        return {name: {"kind": metric.kind, **metric.info,
                       "values": {key: metric._shown(value) for key, value in metric._values.items()}}
                for name, metric in _all.items()}


def exposition() -> str:
    """The metrics of this process in Prometheus' text format."""
    lines = []
    for name, facts in snapshot().items():
        lines += [f"# HELP {name} {facts['description']}", f"# TYPE {name} {facts['kind']}"]
        for key, value in facts["values"].items():
            tags = list(zip(facts["tag_keys"], key))
            if facts["kind"] != "histogram":
                lines.append(f"{name}{_labels(tags)} {value:g}")
                continue
            total = 0
            for boundary, count in zip([*map(str, facts["boundaries"]), "+Inf"], value["counts"]):
                total += count
                lines.append(f"{name}_bucket{_labels([*tags, ('le', boundary)])} {total}")
            lines += [f"{name}_sum{_labels(tags)} {value['sum']:g}", f"{name}_count{_labels(tags)} {value['count']}"]
    return "\n".join(lines) + "\n"


def _labels(tags):
    def quoted(text):
        return text.replace("\\", r"\\").replace('"', r'\"').replace("\n", r"\n")
    return "{" + ",".join(f'{key}="{quoted(value)}"' for key, value in tags) + "}" if tags else ""


public_module(globals())
