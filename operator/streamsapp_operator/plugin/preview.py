"""``kubectl streamsapp preview NAME -f new.yaml``: shows what a change would do before it is applied.

Runs on the main thread; the work is done by ``streamsapp preview`` in a pod beside the application, with Spark.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from streamsapp.errors import ManifestError
from streamsapp.manifest import StreamsApp, load
from streamsapp.manifest.model import PreviewSpec
from streamsapp_operator.children.command_pod import template_of
from streamsapp_operator.children.pod_template import MANIFEST_PATH, STATE_DIR
from streamsapp_operator.children.run_to_completion import runtime_container
from streamsapp_operator.children.spark_job import local_master, spark_container
from streamsapp_operator.plugin.arguments import add_command, add_forwarded, forwarded_arguments
from streamsapp_operator.plugin.command_pods import command_pod_of
from streamsapp_operator.plugin.errors import WRONG_INPUT, PluginError
from streamsapp_operator.plugin.session import CommandSession, Document

_AMOUNT = {
    "--last": "replay the input of at least so long: 90s, 10m, 1h, 2d",
    "--records": "replay at least so many records of each task; default: 10000",
}
_DETAILS = (
    "Both versions run over the same input, each on a copy of the state that a snapshot has; every key that differs\n"
    "is shown with the first pair of values that does. Nothing is written and nothing is applied. A pod beside the\n"
    "application does it, in an image with Spark, with its code and secrets; it is deleted at the end.\n\n"
    "Exit code: 0 nothing differs, 1 something does, or a version fails, 2 the input is wrong."
)
#: In the pod, in a folder of its own: whatever lies beside it counts as its code.
_FILE = f"{STATE_DIR}/preview/new.yaml"


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(commands, "preview", "show what a changed manifest would do", _DETAILS, run)
    parser.add_argument("-f", "--file", type=Path, required=True, metavar="new.yaml", help="the changed manifest")
    parser.add_argument("--image", help="an image with Spark; default: spec.spark.image, of the file or of today")
    add_forwarded(parser, _AMOUNT, exclusive=_AMOUNT)


def run(options: argparse.Namespace, session: CommandSession) -> int:
    new, today = _read(options.file, options.name), session.cluster.app(options.name)
    template = template_of(session.cluster.stateful_set(options.name))
    image = options.image or new.spec.spark.image or _image_of(today, runtime_container(template)["image"])
    asked = (new.spec.rollout.preview or PreviewSpec()).resources
    arguments = ["--against", MANIFEST_PATH, "--master", local_master(asked), "--output", options.output]
    with command_pod_of(session, today, "preview", spark_container(template, image, asked)) as pod:
        with options.file.open("rb") as content:
            pod.put(content, _FILE)
        return pod.run("preview", [*arguments, *forwarded_arguments(options, _AMOUNT)], manifest=_FILE)


def _read(path: Path, name: str) -> StreamsApp:
    """Reads the file, and reports all of its faults before any pod is made."""
    try:
        app = load(path)
    except ManifestError as error:
        raise PluginError("\n".join(f"{path}: {fault}" for fault in error.faults), WRONG_INPUT) from error
    if app.metadata.name != name:
        raise PluginError(f"{path}: metadata.name: is {app.metadata.name!r}, expected {name!r}", WRONG_INPUT)
    if app.spec.code.config_map_ref is not None:
        told = "only code of spec.code.files can be previewed from here; put it there"
        raise PluginError(f"{path}: spec.code.configMapRef: {told}", WRONG_INPUT)
    return app


def _image_of(today: Document, running: str) -> str:
    """Returns an image with Spark that the application has today."""
    spec = today["spec"]
    image: str | None = (spec.get("spark") or {}).get("image") or (running if spec.get("engine") == "spark" else None)
    if image is None:
        raise PluginError("--image: name an image with Spark, or set spec.spark.image", WRONG_INPUT)
    return image
