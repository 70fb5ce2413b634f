"""The operator's settings, from its environment, as the chart sets it, or from options, which win.

Read once by ``__main__``, on the main thread.
"""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from streamsapp.errors import ConfigError
from streamsapp_operator.children import RenderSettings

_DESCRIPTION = "Runs StreamsApps in Kubernetes: makes their pods, and restarts none at the wrong moment."
_EPILOG = """\
The operator logs in as the pod it runs in, or outside a cluster by KUBECONFIG. It needs the StreamsApp
CustomResourceDefinition and a role; the Helm chart installs both, and sets what is described here.

To run it on your own machine against the cluster of your kubeconfig:

  head -c 32 /dev/urandom > key
  streamsapp-operator --namespaces default --key-file key --runtime-image registry.example/streamsapp-runtime:1.0

  # the chart that this installation brings, with the place where you pushed the images
  helm install streamsapp "$(streamsapp-operator chart)" --set global.imageRegistry=registry.example/team

It must reach the pods' addresses: what it cannot ask it takes for unsafe, and then restarts nothing.

Exit codes: 0 asked to end, 1 the Lease was lost or the API server fails for good, 2 these settings are wrong.
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of the operator."""

    #: Empty: all.
    namespaces: tuple[str, ...]
    render: RenderSettings
    key: bytes
    #: The place where the Lease is, and the name of this process in it.
    namespace: str
    identity: str
    lease_name: str
    lease_seconds: float
    http_port: int
    #: True if the port serves the console of the cluster.
    console: bool
    log_level: str
    log_format: str


def parse(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Settings:
    """Reads the settings. Raises ``ConfigError``, which names the setting and the remedy; ends the process for
    ``--help`` as ``argparse`` does."""
    parser = _parser(environment)
    given = parser.parse_args(arguments)
    _check_choices(parser, given)
    return Settings(
        namespaces=_namespaces(given.namespaces, given.own_namespace),
        render=RenderSettings(
            runtime_image=given.runtime_image or None,
            operator_namespace=given.own_namespace,
            image_pull_policy=given.image_pull_policy,
            image_pull_secrets=tuple(each.strip() for each in given.image_pull_secrets.split(",") if each.strip()),
            spark_image=given.spark_image or None,
            operator_labels=_labels(given.own_labels),
            fixed_user=given.fixed_user == "on",
            egress=_egress(given.application_egress),
        ),
        key=_key(given.key_file),
        namespace=given.own_namespace,
        identity=given.own_name,
        lease_name=given.lease_name,
        lease_seconds=_at_least(given.lease_seconds, 1.0, "lease-seconds"),
        http_port=given.http_port,
        console=given.console == "on",
        log_level=given.log_level,
        log_format=given.log_format,
    )


def _parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "streamsapp-operator",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )

    def add(option: str, variable: str, default: str, text: str, **more: object) -> None:
        value = environment.get(variable) or default
        shown = f"{text} [{variable}; default: {default or 'none'}]"
        parser.add_argument(option, default=value, help=shown, **more)  # type: ignore[arg-type]

    add("--namespaces", "WATCH_NAMESPACES", "", "namespaces to watch, separated by commas; * for all; own if empty")
    add("--runtime-image", "STREAMSAPP_RUNTIME_IMAGE", "", "image of pods whose StreamsApp has no spec.image")
    add(
        "--spark-image",
        "STREAMSAPP_SPARK_IMAGE",
        "",
        "image with Spark: of queries, bootstraps and previews that name none",
    )
    add(
        "--image-pull-policy",
        "STREAMSAPP_IMAGE_PULL_POLICY",
        "IfNotPresent",
        "pull policy of both images",
        choices=("Always", "IfNotPresent", "Never"),
    )
    add(
        "--image-pull-secrets",
        "STREAMSAPP_IMAGE_PULL_SECRETS",
        "",
        "Secrets to pull applications' images with, separated by commas, in the namespace of each StreamsApp",
    )
    add(
        "--fixed-user",
        "STREAMSAPP_FIXED_USER",
        "on",
        "applications' pods run as user 65532; off: as one that the cluster gives them, as OpenShift does",
        choices=("on", "off"),
    )
    add(
        "--application-egress",
        "STREAMSAPP_APPLICATION_EGRESS",
        "[]",
        "what applications reach beside DNS and their own pods: rules of a NetworkPolicy, as JSON; []: everything",
    )
    add("--key-file", "STREAMSAPP_KEY_FILE", "", "file with the key that applications' tokens are derived of")
    add("--lease-name", "STREAMSAPP_LEASE_NAME", "streamsapp-operator", "name of the Lease that one operator holds")
    add("--lease-seconds", "STREAMSAPP_LEASE_SECONDS", "15", "after which another one takes over", type=float)
    add("--http-port", "STREAMSAPP_HTTP_PORT", "8081", "port of /healthz, /readyz, /metrics and /console/", type=int)
    add("--console", "STREAMSAPP_CONSOLE", "on", "serve the console of the cluster", choices=("on", "off"))
    levels = ("debug", "info", "warning", "error")
    add("--log-level", "STREAMSAPP_LOG_LEVEL", "info", "least severe level to log", choices=levels)
    add(
        "--log-format",
        "STREAMSAPP_LOG_FORMAT",
        "auto",
        "text on a terminal, else json",
        choices=("auto", "text", "json"),
    )
    add("--own-namespace", "POD_NAMESPACE", "default", "namespace of the Lease and of the operator's pods")
    add("--own-name", "POD_NAME", f"{socket.gethostname()}-{os.getpid()}", "who this is; another one's must differ")
    add(
        "--own-labels",
        "STREAMSAPP_OPERATOR_LABELS",
        "app.kubernetes.io/name=streamsapp-operator",
        "labels of the operator's pods, for the applications' NetworkPolicies",
    )
    return parser


def _check_choices(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    """Checks choices: ``argparse`` checks choices given as an option, not those from the environment."""
    for action in parser._actions:
        value = getattr(given, action.dest, None)
        if action.choices is not None and value not in action.choices:
            raise ConfigError(f"{action.option_strings[0]}: expected {', '.join(action.choices)}; got {value!r}")


def _namespaces(given: str, own: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in given.split(",") if name.strip()))
    if names == ("*",):
        return ()
    if "*" in names:
        raise ConfigError(f"--namespaces: * stands for all of them, and alone; got {given!r}")
    return names or (own,)


def _labels(given: str) -> dict[str, str]:
    pairs = [pair.strip().partition("=") for pair in given.split(",") if pair.strip()]
    if not pairs or not all(name and equals for name, equals, _ in pairs):
        raise ConfigError(f"--own-labels: expected name=value, separated by commas, got {given!r}")
    return {name: value for name, _, value in pairs}


def _egress(given: str) -> tuple[dict[str, Any], ...]:
    try:
        return tuple(msgspec.json.decode(given, type=list[dict[str, Any]]))
    except msgspec.MsgspecError as error:
        raise ConfigError(
            f"--application-egress: expected a list of egress rules of a NetworkPolicy as JSON: {error}"
        ) from error


def _key(given: str) -> bytes:
    if not given:
        raise ConfigError("--key-file: is required: pods recognise the operator by it; see --help")
    try:
        key = Path(given).read_bytes()
    except OSError as error:
        raise ConfigError(f"--key-file: cannot read {given}: {error.strerror}") from error
    if len(key) < 16:
        raise ConfigError(
            f"--key-file: {given} has {len(key)} bytes, and less than 16 can be guessed; make a longer one"
        )
    return key


def _at_least(given: float, least: float, option: str) -> float:
    if not given >= least:
        raise ConfigError(f"--{option}: expected {least:g} or more, got {given:g}")
    return given
