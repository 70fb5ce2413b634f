"""The chart's alerts by Prometheus' own tool: that it takes them, and when they go off, with which words."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from debian_program import promtool

pytestmark = pytest.mark.long

Check = Callable[..., None]
APP = 'namespace="shop",name="orders"'
POD, COMMITS = 'namespace="shop",streamsapp="orders"', "kafka_stream_thread_commit_latency_seconds_count"
SUSPENDED = 'namespace="shop",name="asleep"'


@pytest.fixture(scope="module")
def rules(render: Callable[..., list[dict[str, Any]]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that Prometheus reads."""
    found = render("monitoring.alerts.enabled=true", 'monitoring.alerts.runbooks="https://docs.example/runbooks/"')
    (rule,) = [each for each in found if each["kind"] == "PrometheusRule"]
    path = tmp_path_factory.mktemp("alerts") / "rules.yaml"
    path.write_text(json.dumps(rule["spec"]))  # JSON is YAML
    return path


@pytest.fixture(scope="module")
def check() -> Check:
    """Runs promtool, which has to be content."""
    program = promtool()
    if program is None:
        pytest.skip("promtool is not here, and apt-get has no package prometheus")

    def run(*arguments: str) -> None:
        answer = subprocess.run([str(program), *arguments], capture_output=True, text=True, timeout=120, check=False)
        assert answer.returncode == 0, answer.stdout + answer.stderr

    return run


def test_prometheus_takes_the_alerts(check: Check, rules: Path) -> None:
    check("check", "rules", str(rules))


@pytest.mark.parametrize(
    ("alert", "series", "minutes", "labels", "summary"),
    [
        ("StreamsAppNotReady", {f'streamsapp_app_condition{{type="Ready",{APP}}}': "1 0x20",
                                f'streamsapp_app_condition{{type="Ready",{SUSPENDED}}}': "1 0x20",
                                f'streamsapp_app_replicas{{state="wanted",{APP}}}': "3x20",
                                f'streamsapp_app_replicas{{state="wanted",{SUSPENDED}}}': "0x20"}, 8,
         {"type": "Ready", "namespace": "shop", "name": "orders"}, "shop/orders is not ready"),
        ("StreamsAppInputLagGrows", {f"streamsapp_app_input_lag{{{APP}}}": "0+60000x60"}, 40,
         {"namespace": "shop", "name": "orders"}, "shop/orders falls behind its input: 1k records a second"),
        ("StreamsAppNothingCommitted", {f'kafka_stream_task_input_lag{{{POD},pod="a"}}': "7x60",
                                        f'{COMMITS}{{{POD},pod="a"}}': "9x60",
                                        f'kafka_stream_task_input_lag{{{POD},pod="busy"}}': "7x60",
                                        f'{COMMITS}{{{POD},pod="busy"}}': "0+1x60",
                                        f'kafka_stream_task_input_lag{{{POD},pod="idle"}}': "0x60",
                                        f'{COMMITS}{{{POD},pod="idle"}}': "9x60",
                                        f'kafka_stream_task_input_lag{{{POD},pod="driver"}}': "7x60",
                                        f'kafka_stream_batch_batches_total{{{POD},pod="driver"}}': "0+1x60"}, 20,
         {"namespace": "shop", "streamsapp": "orders", "pod": "a"},
         "7 records wait for pod a of shop/orders, which has committed nothing for 10 minutes"),
        ("StreamsAppOperatorDown", {"streamsapp_operator_leader": "0x20"}, 8, {}, "no operator of StreamsApps works"),
        ("StreamsAppOperatorDown", {}, 8, {}, "no operator of StreamsApps works"),
    ],
)  # fmt: skip
def test_an_alert_goes_off_when_it_is_time_and_not_before(
    check: Check,
    rules: Path,
    tmp_path: Path,
    alert: str,
    series: dict[str, str],
    minutes: int,
    labels: dict[str, str],
    summary: str,
) -> None:
    check("test", "rules", str(_trial(rules, tmp_path, alert, series, minutes, labels, summary)))


def _trial(
    rules: Path, folder: Path, alert: str, series: dict[str, str], minutes: int, labels: dict[str, str], summary: str
) -> Path:
    """A file of promtool's: the alert is not there at first, and is after so many minutes."""
    (given,) = [
        each for group in json.loads(rules.read_text())["groups"] for each in group["rules"] if each["alert"] == alert
    ]
    goes_off = {
        "exp_labels": {**given["labels"], **labels},
        "exp_annotations": {"summary": summary, "runbook_url": given["annotations"]["runbook_url"]},
    }
    trial = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {"eval_time": "2m", "alertname": alert},
            {"eval_time": f"{minutes}m", "alertname": alert, "exp_alerts": [goes_off]},
        ],
    }
    path = folder / "trial.yaml"
    path.write_text(json.dumps({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [trial]}))
    return path
