"""The parts of the chart that are tested without helm: its copies, its schema, its dashboard."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from metric_names import series
from release import project_version

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "charts" / "streamsapp"
SCHEMA = json.loads((CHART / "values.schema.json").read_text("utf-8"))
VALUES = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
DASHBOARD = json.loads((CHART / "files" / "dashboard.json").read_text("utf-8"))
ALERTS = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text("utf-8"))
#: Fields of a pod, which only a schema has.
UNSET = {"operator.resources.requests", "operator.resources.limits"}
POD_FIELDS = ("operator.podSecurityContext.", "operator.containerSecurityContext.")


def test_the_chart_has_no_crd_but_the_one_of_the_tree() -> None:
    packaged = CHART / "files" / "streamsapps.yaml"
    assert packaged.is_symlink()
    assert packaged.resolve() == ROOT / "crds" / "streamsapps.yaml"


def test_the_version_is_that_of_the_project() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert {chart["version"], chart["appVersion"]} == {project_version()}


def _fields(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field that has one of its own in the schema."""
    if "$ref" in schema:
        schema = SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]]
    for name, below in schema.get("properties", {}).items():
        yield f"{path}{name}", below
        yield from _fields(below, f"{path}{name}.")


def _known() -> set[str]:
    return {path for path, _ in _fields(SCHEMA) if not path.startswith(POD_FIELDS)}


def _paths(values: dict[str, Any], known: set[str], path: str = "") -> Iterator[str]:
    for name, value in values.items():
        yield f"{path}{name}"
        if isinstance(value, dict) and any(field.startswith(f"{path}{name}.") for field in known):
            yield from _paths(value, known, f"{path}{name}.")


def test_every_value_is_in_the_schema_and_has_a_default() -> None:
    known = _known()
    assert set(_paths(VALUES, known)) - {"operator.resources.requests", "operator.resources.limits"} == known - UNSET


def test_every_value_is_in_the_documentation() -> None:
    text = (ROOT / "docs" / "helm.md").read_text("utf-8")
    names = {path for path, field in _fields(SCHEMA) if "properties" not in field and "$ref" not in field} & _known()
    names -= UNSET
    missing = [name for name in names if f"`{name}`" not in text and f"`{name.rpartition('.')[2]}`" not in text]
    assert missing == []


def test_a_misspelt_value_is_refused_everywhere() -> None:
    # Other charts may have global values, too; a template of the chart looks at those.
    objects = [SCHEMA, *(field for path, field in _fields(SCHEMA) if "properties" in field and path != "global")]
    assert all(each["additionalProperties"] is False for each in objects)


def _expressions() -> Iterator[tuple[str, str]]:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        yield variable["label"], variable["query"]["query"] if isinstance(variable["query"], dict) else ""


def test_every_metric_of_the_dashboard_is_one_that_is_told() -> None:
    told = series()
    asked = {
        (title, name) for title, text in _expressions() for name in re.findall(r"\b(?:kafka|streamsapp)_\w+", text)
    }
    assert len(asked) > 25
    assert sorted((title, name) for title, name in asked if name not in told) == []


def test_every_runbook_has_its_alert_and_every_alert_its_runbook() -> None:
    runbooks = re.findall(
        r"^## (.*)\n\n```promql\n(.*)\n```", (ROOT / "docs" / "runbooks.md").read_text("utf-8"), re.MULTILINE
    )
    assert runbooks
    assert {(each["runbook"], each["expr"]) for each in ALERTS} == {
        (title.lower().replace(" ", "-"), expression) for title, expression in runbooks
    }
    assert len({each["alert"] for each in ALERTS}) == len(ALERTS) == len(runbooks)


def test_an_alert_names_what_it_is_about_by_labels_that_its_expression_has() -> None:
    for each in ALERTS:
        aggregated = re.search(r"by \(([\w, ]+)\)", each["expr"])
        told = set(re.findall(r"\$labels\.(\w+)", each["summary"]))
        if aggregated:
            assert told <= set(aggregated[1].split(", ")), each["alert"]
        elif "streamsapp_app_" in each["expr"]:
            assert told <= {"namespace", "name", "phase"}, each["alert"]


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells


def test_every_panel_says_what_it_shows() -> None:
    assert all(panel["description"] for panel in DASHBOARD["panels"] if panel["type"] != "row")


@pytest.mark.parametrize("name", ["docs/kubectl-plugin.md"])
def test_the_output_in_the_documentation_is_what_is_printed(name: str) -> None:
    golden = ROOT / "tests" / "unit" / "operator" / "plugin" / "golden" / "healthy.txt"
    assert golden.read_text("utf-8") in (ROOT / name).read_text("utf-8")
