"""The real helm, and an API server that takes what the chart renders."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from api_server import ApiServer
from cluster.binaries import executable

#: A release names the place of its images.
IMAGES = '--set-json=global.imageRegistry="registry.example/team"'
CHART = Path(__file__).resolve().parents[3] / "charts" / "streamsapp"

Document = dict[str, Any]
Helm = Callable[..., str]
Render = Callable[..., list[Document]]


@pytest.fixture(scope="session")
def helm() -> Helm:
    """Runs helm; returns its output. Raises with its complaint when it fails."""
    program = executable("helm")

    def run(*arguments: str, kubeconfig: Path | None = None) -> str:
        # No cluster of the developer's is ever touched.
        environment = {
            "KUBECONFIG": str(kubeconfig or "/dev/null"),
            "HOME": "/nonexistent",
            "HELM_CACHE_HOME": "/nonexistent",
        }
        answer = subprocess.run(
            [str(program), *arguments], env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        if answer.returncode != 0:
            raise RuntimeError(f"helm {' '.join(arguments)}: {answer.stderr.strip()}")
        return answer.stdout

    return run


@pytest.fixture(scope="session")
def render(helm: Helm) -> Render:
    """Renders the chart with these values (``name=value``), in namespace ``apps``."""

    def run(*values: str, release: str = "streamsapp") -> list[Document]:
        options = [option for value in values for option in ("--set-json", value)]
        text = helm("template", release, str(CHART), "-n", "apps", "--kube-version", "1.34.0", IMAGES, *options)
        return [document for document in yaml.safe_load_all(text) if document]

    return run


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Of the tests of this folder alone: the chart installs what belongs to a whole cluster, and is taken away again
    before the next file."""
    with ApiServer(tmp_path_factory.mktemp("api-server")) as running:
        yield running
