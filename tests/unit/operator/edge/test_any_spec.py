"""With anything in a StreamsApp, reading its spec gives a revision or faults, and never another exception."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from streamsapp_operator.children import RenderSettings
from streamsapp_operator.model.desired_state import DesiredState, InvalidSpec
from streamsapp_operator.spec_rendering import rendered_spec

SETTINGS = RenderSettings(runtime_image="runtime:1", operator_namespace="operators", spark_image="spark:1")
SPEC: dict[str, Any] = {
    "applicationId": "id",
    "engine": "threads",
    "replicas": 3,
    "autoscaling": {"minReplicas": 1, "maxReplicas": 3},
    "topology": {"entrypoint": "a:b"},
    "code": {"files": {"a.py": "b = 1"}},
    "image": "image:1",
    "kafka": {"bootstrapServers": "k:9092", "properties": {"linger.ms": 5}, "secretRef": {"name": "s"}},
    "processing": {"guarantee": "at_least_once", "threads": 2, "clientTags": {"zone": "$(ZONE)"}},
    "errors": {"processing": "continue", "deadLetterTopic": "dead"},
    "topics": {"properties": {"retention.ms": "1"}, "replicationFactor": 1},
    "remoteState": {"url": "s3://bucket/prefix", "secretRef": {"name": "s"}, "endpoint": "http://minio:9000"},
    "bootstrap": {"until": {"t": {"0": 5}}, "resources": {"limits": {"memory": "1Gi"}}},
    "spark": {"trigger": "availableNow", "schedule": "@hourly", "conf": {"spark.x": "y"}, "image": "s:1"},
    "rollout": {
        "soakSeconds": 5,
        "preview": {"records": 10, "resources": {"requests": {"cpu": 1}}},
        "maintenanceWindows": [{"days": ["Sunday"], "start": "02:00", "end": "03:00", "timeZone": "UTC"}],
    },
    "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "2Gi"}, "claims": [{"name": "c"}]},
    "podTemplate": {
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {
            "affinity": {"podAntiAffinity": {}},
            "volumes": [{"name": "v", "projected": {"sources": [{"configMap": {"name": "c"}}]}}],
            "containers": [
                {
                    "name": "runtime",
                    "env": [{"name": "A", "value": "1"}],
                    "ports": [{"containerPort": 9000, "name": "extra"}],
                    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                    "securityContext": {"capabilities": {"drop": ["ALL"]}},
                    "livenessProbe": {"httpGet": {"port": 1, "host": ""}},
                }
            ],
            "initContainers": [{"name": "first", "image": "i"}],
            "topologySpreadConstraints": [{"topologyKey": "zone"}],
            "imagePullSecrets": [{"name": "p"}],
        },
    },
}
ODD: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1 << 70,
        0.5,
        float("nan"),
        "",
        "runtime",
        "../..",
        "a" * 10_000,
        "\ud800",
        "0",
        "@hourly",
    ),
    *([], {}, [[]], [{}], [None], {"": None}, {"name": []}, {"a": {"b": {}}}, [1, "a"], {"name": "runtime"}),
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Returns every mapping and list below ``value``, each with one of its keys."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [found for key in keys for found in ((value, key), *places(value[key]))]


def changed(dice: random.Random) -> Any:
    """Returns the specification with some of its parts left out, exchanged with one another, or made odd."""
    spec = copy.deepcopy(SPEC)
    for name in dice.sample(sorted(spec.keys() - {"topology", "kafka"}), dice.randrange(len(spec) - 1)):
        del spec[name]
    for _ in range(dice.choice((0, 1, 1, 2, 3))):
        found = places(spec)
        if not found:
            break
        holder, key = dice.choice(found)
        other, at = dice.choice(found)
        match dice.randrange(4):
            case 0:
                holder[key] = copy.deepcopy(other[at])
            case 1 if isinstance(holder, dict):
                holder[str(at)] = copy.deepcopy(dice.choice(ODD))
            case _:
                holder[key] = copy.deepcopy(dice.choice(ODD))
    return dice.choice(ODD) if dice.random() < 0.01 else spec


@pytest.mark.seeds(4)
def test_gives_a_revision_or_faults(seed: int) -> None:
    dice, asked = random.Random(seed), {DesiredState: 0, InvalidSpec: 0}
    for _ in range(400):
        metadata = {"name": "app", "namespace": "ns", "uid": "u", "generation": 1}
        document = {"apiVersion": "streamsapp.dev/v1alpha1", "kind": "StreamsApp", "metadata": metadata}
        code = dice.choice([None, {"metadata": metadata, "data": {"a.py": "b = 1"}}])
        read = rendered_spec(document | {"spec": changed(dice)}, SETTINGS, lambda name: code)  # noqa: B023
        asked[type(read.wanted)] += 1
        assert isinstance(read.wanted, DesiredState) or all(read.wanted.faults), read
    assert min(asked.values()) > 10, asked
