"""The names of all metrics, read out of the code that makes them; a histogram has the name of its family."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from streamsapp.metrics.samples import metric_name
from streamsapp_operator.metrics import OperatorMetrics
from streamsapp_operator.model.resource_status import from_document
from streamsapp_operator.model.status import AppStatus

_ROOT = Path(__file__).resolve().parents[2]
_CODE = (_ROOT / "runtime" / "streamsapp", _ROOT / "spark" / "streamsapp_spark")
#: The parts that are computed in a name, by what comes after them.
_COMPUTED = {"-rate": ("bytes", "records"), "-seconds": ("predicted", "observed")}
_TYPES = {"counter": ("{}_total", "counter"), "gauge": ("{}", "gauge"), "samples": ("{}_seconds", "histogram")}


def runtime_metrics() -> dict[str, str]:
    """Type by name of the figures of an instance, in a pod or on Spark, without the process's own figures."""
    modules = (path for folder in _CODE for path in folder.rglob("*.py"))
    return {name: kind for path in modules for name, kind in _of_module(path)}


def operator_metrics() -> dict[str, str]:
    """Type by name of the operator's figures."""
    figures = OperatorMetrics()
    rollout = {"revision": "a", "predictedSeconds": 1.0, "observedSeconds": 1.0}
    condition = dict.fromkeys(("reason", "message", "lastTransitionTime"), "") | {"type": "Ready", "status": "True"}
    document = {
        "inputLag": 1,
        "standbyLag": 1,
        "rollout": rollout,
        "conditions": [condition | {"observedGeneration": 1}],
    }
    status = from_document(document)
    assert isinstance(status, AppStatus)
    assert status.rollout is not None
    figures.saw(("default", "wordcount"), status, 1)
    figures.heard("get", "pods", "200")
    figures.errors.labels("conflict").inc()
    families = text_string_to_metric_families(figures.render().decode())
    return {each.name + ("_total" if each.type == "counter" else ""): each.type for each in families}


def series() -> set[str]:
    """Every name that Prometheus has of them: of a histogram its three parts."""
    named = {**runtime_metrics(), **operator_metrics()}
    parts = {
        f"{name}_{part}" for name, kind in named.items() for part in ("bucket", "count", "sum") if kind == "histogram"
    }
    return {name for name, kind in named.items() if kind != "histogram"} | parts


def _of_module(path: Path) -> Iterator[tuple[str, str]]:
    tree = ast.parse(path.read_text("utf-8"))
    constants = {
        target.id: str(node.value.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    } | {"group": "stream-task-metrics"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from _of_call(node, constants)
        elif isinstance(node, ast.FunctionDef) and node.name == "statistics" and "state" in path.parts:
            yield from ((metric_name("stream-state-metrics", key), "gauge") for key in _keys(node))


def _of_call(call: ast.Call, constants: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    kind = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    if kind == "counter" and len(call.args) == 1:  # of a node
        yield from ((metric_name("stream-processor-node-metrics", f"{it}-total"), kind) for it in _texts(call.args[0]))
    elif kind == "CounterMetricFamily":  # of the supervisor
        yield from ((f"{name}_total", "counter") for name in _texts(call.args[0]))
    elif kind in _TYPES and len(call.args) >= 2:
        first, metric = call.args[:2]
        group = str(first.value) if isinstance(first, ast.Constant) else constants.get(getattr(first, "id", ""))
        pattern, type_name = _TYPES[kind]
        yield from ((pattern.format(metric_name(group, text)), type_name) for text in _texts(metric) if group)


def _texts(metric: ast.expr) -> Iterator[str]:
    if isinstance(metric, ast.Constant):
        yield str(metric.value)
    elif isinstance(metric, ast.JoinedStr):
        before, _, after = (str(part.value) if isinstance(part, ast.Constant) else "" for part in metric.values)
        yield from (f"{before}{name}{after}" for name in _COMPUTED[after])


def _keys(statistics: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(statistics):
        if isinstance(node, ast.Dict):
            yield from (str(key.value) for key in node.keys if isinstance(key, ast.Constant))
        elif isinstance(node, ast.Tuple):  # RocksDB's properties
            yield from (str(item.value) for item in node.elts if isinstance(item, ast.Constant))
