"""The program of ``helm test``, run in a pod with the operator's own account: the operator answers, and StreamsApps
are served.

Exit code 0 if both are so. Prints a line for each question; the last one that failed says what to look at.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from urllib.error import URLError
from urllib.request import urlopen

from kubernetes import client, config

_TRIES, _PAUSE_SECONDS = 30, 1.0


def main() -> int:
    """Ask everything, print everything."""
    faults = [*operator_faults(os.environ["OPERATOR_URL"]), *served_faults(os.environ["NAMESPACES"].split(","))]
    for fault in faults:
        print(f"FAILED  {fault}", file=sys.stderr)
    return int(bool(faults))


def operator_faults(url: str) -> Iterator[str]:
    """Is the operator there? It may be starting."""
    fault = ""
    for _ in range(_TRIES):
        try:
            with urlopen(f"{url}/readyz", timeout=5) as answer:  # noqa: S310 - the scheme is the chart's
                print(f"ok      {url}/readyz answers: {answer.read().decode().strip()}")
                return
        except (URLError, OSError) as error:
            fault = f"{url}/readyz: {error}; `kubectl logs` of the operator says why"
            time.sleep(_PAUSE_SECONDS)
    yield fault


def served_faults(namespaces: list[str]) -> Iterator[str]:
    """Does the API server know StreamsApps, and may the operator see them?"""
    config.load_incluster_config()
    api = client.CustomObjectsApi()
    for namespace in namespaces:
        where = "all namespaces" if namespace == "*" else f"namespace {namespace}"
        try:
            ask_once(api, namespace)
        except client.ApiException as error:
            yield f"StreamsApps of {where} cannot be listed: {error.status} {error.reason}"
        else:
            print(f"ok      {where}: StreamsApps are served")


def ask_once(api: client.CustomObjectsApi, namespace: str) -> None:
    """List, and forget the result."""
    if namespace == "*":
        api.list_cluster_custom_object("streamsapp.dev", "v1alpha1", "streamsapps", limit=1)
    else:
        api.list_namespaced_custom_object("streamsapp.dev", "v1alpha1", namespace, "streamsapps", limit=1)


if __name__ == "__main__":
    sys.exit(main())
