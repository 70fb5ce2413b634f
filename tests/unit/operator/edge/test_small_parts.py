"""Tokens, figures that change all the time, errors, settings, logs."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from streamsapp.errors import ConfigError
from streamsapp.log_format import JsonFormatter
from streamsapp_operator.kube.errors import (
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    InternalError,
    Refused,
    Rejected,
    Unauthorized,
    Unavailable,
    error_of,
)
from streamsapp_operator.logs import DuplicateFilter
from streamsapp_operator.pod_tokens import tokens
from streamsapp_operator.settings import parse
from streamsapp_operator.status_comparison import without_figures

DAY = 86_400.0


def test_yesterdays_token_is_the_one_that_was_todays() -> None:
    today, yesterday = tokens(b"k" * 32, "uid", 10 * DAY + 5)
    assert tokens(b"k" * 32, "uid", 11 * DAY)[1] == today
    assert tokens(b"k" * 32, "uid", 10 * DAY - 1)[0] == yesterday


def test_tokens_of_applications_and_keys_differ() -> None:
    made = {tokens(key, uid, 0.0)[0] for key in (b"a" * 32, b"b" * 32) for uid in ("one", "two")}
    assert len(made) == 4


def test_figures_alone_make_no_new_status() -> None:
    def status(lag: int | None, message: str, safe: bool = True) -> dict[str, Any]:
        blockers = [{"pod": "a", "lag": lag, "ageSeconds": 1.5, "reason": message}]
        return {"inputLag": lag, "restart": {"safe": safe, "blockers": blockers}, "conditions": [{"message": message}]}

    assert without_figures(status(5, "is 5 behind")) == without_figures(status(1200, "is 1,200 behind"))
    assert without_figures(status(5, "is 5 behind")) != without_figures(status(None, "is 5 behind"))
    assert without_figures(status(5, "is 5 behind")) != without_figures(status(5, "is gone"))
    assert without_figures(status(5, "x")) != without_figures(status(5, "x", safe=False))


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, Rejected),
        (401, Unauthorized),
        (403, Rejected),
        (404, Gone),
        (409, Conflict),
        (410, Gone),
        (422, Rejected),
        (429, Unavailable),
        (500, Unavailable),
        (503, Unavailable),
    ],
)
def test_answers_of_the_api_server_become_few_errors(code: int, kind: type[ApiError]) -> None:
    error = error_of(code, {"message": "said so"}, "patch pods")
    assert type(error) is kind
    assert "said so" in str(error)


def test_a_write_that_makes_the_api_server_fail_is_no_outage() -> None:
    said = {"message": "failed calling webhook"}
    assert type(error_of(500, said, "patch secrets", writing=True)) is InternalError
    assert type(error_of(503, said, "patch secrets", writing=True)) is Unavailable


def test_a_budget_that_is_against_an_eviction_is_told_apart() -> None:
    assert isinstance(error_of(429, {"message": "disruption budget"}, "create pods/eviction", evicting=True), Refused)


def test_a_right_that_is_missing_is_named_with_the_remedy() -> None:
    said = 'pods "a" is forbidden: User "x" cannot create resource "pods/eviction" in API group "" in the namespace "x"'
    error = error_of(403, {"message": said}, "create pods/eviction a in namespace x")
    assert isinstance(error, Forbidden)
    assert "the operator may not create pods/eviction; add create on pods/eviction in API group ''" in str(error)


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    file = tmp_path / "key"
    file.write_bytes(b"k" * 32)
    return str(file)


def test_is_told_by_its_environment_and_options_win(key_file: str) -> None:
    environment = {
        "WATCH_NAMESPACES": "a, b,a",
        "STREAMSAPP_RUNTIME_IMAGE": "image:1",
        "STREAMSAPP_SPARK_IMAGE": "spark:1",
        "STREAMSAPP_KEY_FILE": key_file,
        "POD_NAMESPACE": "system",
        "POD_NAME": "operator-x",
    }
    settings = parse(["--http-port", "9"], environment)
    assert settings.namespaces == ("a", "b")
    assert (settings.namespace, settings.identity, settings.http_port) == ("system", "operator-x", 9)
    assert (settings.render.runtime_image, settings.render.operator_namespace) == ("image:1", "system")
    assert settings.render.spark_image == "spark:1"
    assert settings.key == b"k" * 32


@pytest.mark.parametrize(("given", "namespaces"), [("*", ()), ("", ("own",)), (" , ", ("own",)), ("x", ("x",))])
def test_watches_all_namespaces_or_its_own(key_file: str, given: str, namespaces: tuple[str, ...]) -> None:
    environment = {"WATCH_NAMESPACES": given, "STREAMSAPP_KEY_FILE": key_file, "POD_NAMESPACE": "own"}
    assert parse([], environment).namespaces == namespaces


def test_rules_of_a_network_policy_are_a_list_of_objects(key_file: str) -> None:
    given = {"STREAMSAPP_KEY_FILE": key_file, "STREAMSAPP_APPLICATION_EGRESS": '[{"ports": [{"port": 9092}]}]'}
    assert parse([], given).render.egress == ({"ports": [{"port": 9092}]},)
    assert parse([], {"STREAMSAPP_KEY_FILE": key_file}).render.egress == ()


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({}, "--key-file: is required"),
        ({"STREAMSAPP_KEY_FILE": "/does/not/exist"}, "--key-file: cannot read"),
        ({"WATCH_NAMESPACES": "a,*"}, "--namespaces"),
        ({"STREAMSAPP_LOG_LEVEL": "loud"}, "--log-level: expected debug, info, warning, error; got 'loud'"),
        ({"STREAMSAPP_LEASE_SECONDS": "0.1"}, "--lease-seconds"),
        ({"STREAMSAPP_OPERATOR_LABELS": "nonsense"}, "--own-labels"),
        ({"STREAMSAPP_APPLICATION_EGRESS": '{"ports": []}'}, "--application-egress"),
    ],
)
def test_names_the_setting_that_is_wrong(key_file: str, environment: dict[str, str], named: str) -> None:
    base = {} if environment == {} else {"STREAMSAPP_KEY_FILE": key_file}
    with pytest.raises(ConfigError) as refused:
        parse([], base | environment)
    assert named in str(refused.value)


def test_a_key_that_could_be_guessed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"short")
    with pytest.raises(ConfigError, match="less than 16 can be guessed"):
        parse(["--key-file", str(tmp_path / "key")], {})


def test_help_teaches_what_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(["--help"], {})
    assert ended.value.code == 0
    told = capsys.readouterr().out
    for words in ("WATCH_NAMESPACES", "STREAMSAPP_KEY_FILE", "KUBECONFIG", "Exit codes", "head -c 32"):
        assert words in told


def record(name: str, message: str, **extra: Any) -> logging.LogRecord:
    made = logging.LogRecord(name, logging.ERROR, "file", 1, message, (), None)
    made.__dict__.update(extra)
    return made


def test_logs_objects_that_name_the_application() -> None:
    line = json.loads(JsonFormatter().format(record("x", "works again", app="ns/app")))
    assert (line["message"], line["app"], line["level"]) == ("works again", "ns/app", "ERROR")


def test_a_library_may_say_the_same_once_a_minute() -> None:
    now = 0.0
    seldom = DuplicateFilter("kopf", lambda: now)
    assert seldom.filter(record("kopf.clients", "attempt 1 failed"))
    assert not seldom.filter(record("kopf.clients", "attempt 2 failed"))
    assert seldom.filter(record("kopf.clients", "something else"))
    assert seldom.filter(record("streamsapp_operator.loop", "attempt 3 failed"))
    now = 61.0
    assert seldom.filter(record("kopf.clients", "attempt 9 failed"))
