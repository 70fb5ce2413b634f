"""Every rule of the CRD on a real API server: the specs that it takes and refuses, and the words of refusals.

Where ``streamsapp validate`` knows the rule too, it uses the same words.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from stream_apps import Applications, document, refusal
from streamsapp.errors import ManifestError
from streamsapp.manifest import decode
from streamsapp.manifest.to_config import to_config
from streamsapp_operator.children.names import name_faults

KAFKA = {"bootstrapServers": "kafka:9092"}
S3 = "s3://bucket/prefix"
URL = "spec.remoteState.url"
AT_LEAST_1 = "greater than or equal to 1"
CREDENTIALS = "must not carry credentials; put them into the secret's files"
DURATION = "expected a duration in whole ms, s or m, such as 200ms or 2s"
INSTANCES = "expected 'auto' or an integer ≥ 1"
PATHS = "without '..', such as wordcount.py"
PREFIX = "is not usable; use letters, digits, '.', '_', '-' and '/'"
QUANTITY = "expected a quantity such as 2Gi, 500m or 1"
STANDBYS = "lower it, or raise spec.replicas"


class Refused(NamedTuple):
    """The field that is refused, words of what is said of it, and the spec."""

    field: str
    words: str
    spec: dict[str, Any]


#: The refusals that ``validate`` reports of a file, too.
SHARED = [
    Refused(
        "spec.applicationId", "'a b' is not usable; it becomes part of topic and directory", {"applicationId": "a b"}
    ),
    Refused("spec.applicationId", "'..' names a directory; choose another name", {"applicationId": ".."}),
    Refused(
        "spec.autoscaling.minReplicas",
        "; lower it or raise maxReplicas",
        {"autoscaling": {"minReplicas": 3, "maxReplicas": 2}},
    ),
    Refused(
        "spec.topology.entrypoint",
        "expected module:attribute, got 'wordcount'",
        {"topology": {"entrypoint": "wordcount"}},
    ),
    Refused(
        "spec.topology.entrypoint", "expected module:attribute, got 'a:b c'", {"topology": {"entrypoint": "a:b c"}}
    ),
    Refused("spec.code.files", PATHS, {"code": {"files": {"../a.py": ""}}}),
    Refused("spec.code.files", PATHS, {"code": {"files": {"/a.py": ""}}}),
    Refused("spec.code.files", PATHS, {"code": {"files": {"a\\b.py": ""}}}),
    Refused("spec.kafka.bootstrapServers", "is required to run; set it", {"kafka": {}}),
    Refused("spec.kafka.bootstrapServers", "is required to run; set it", {"kafka": None}),
    Refused("spec.processing.instances", INSTANCES, {"processing": {"instances": 0}}),
    Refused("spec.processing.instances", INSTANCES, {"processing": {"instances": "many"}}),
    Refused("spec.resources.limits.memory", QUANTITY, {"resources": {"limits": {"memory": "2 GB"}}}),
    Refused("spec.resources.requests.cpu", QUANTITY, {"resources": {"requests": {"cpu": -1}}}),
    Refused("spec.resources.requests.cpu", QUANTITY, {"resources": {"requests": {"cpu": "-1m"}}}),
    Refused("spec.rollout.preview", "needs spec.remoteState, as it begins", {"rollout": {"preview": {}}}),
    Refused("spec.rollout.maxGap", f"{DURATION}, got '0ms'", {"rollout": {"maxGap": "0ms"}}),
    Refused("spec.rollout.maxGap", f"{DURATION}, got '1.5s'", {"rollout": {"maxGap": "1.5s"}}),
    Refused(
        "spec.rollout.maxGap",
        "a query of spec.engine spark stands still whenever",
        {"engine": "spark", "rollout": {"maxGap": "200ms"}},
    ),
    Refused(
        "spec.rollout.preview",
        "so it has to be in spec.code",
        {"remoteState": {"url": S3}, "rollout": {"preview": {}}, "code": {"files": {}}},
    ),
    Refused(
        "spec.spark.schedule",
        "needs spec.spark.trigger: availableNow",
        {"engine": "spark", "spark": {"schedule": "0 * * * *"}},
    ),
    Refused("spec.kafka.restartOnChange", "needs spec.kafka.secretRef", {"kafka": KAFKA | {"restartOnChange": True}}),
    Refused(
        "spec.kafka.restartOnChange",
        "pods of spec.engine spark do not report that their Secret has changed; remove this",
        {"engine": "spark", "kafka": KAFKA | {"restartOnChange": True, "secretRef": {"name": "login"}}},
    ),
    Refused("spec.bootstrap", "needs spec.remoteState, which is where its state is put", {"bootstrap": {}}),
    Refused(
        "spec.bootstrap.resources.limits.memory",
        QUANTITY,
        {"remoteState": {"url": S3}, "bootstrap": {"resources": {"limits": {"memory": "2 GB"}}}},
    ),
    Refused(
        "spec.bootstrap.resources.requests.cpu",
        QUANTITY,
        {"remoteState": {"url": S3}, "bootstrap": {"resources": {"requests": {"cpu": -1}}}},
    ),
    Refused(
        "spec.kafka.bootstrapServers", "must not carry credentials", {"kafka": {"bootstrapServers": "a:b@kafka:9092"}}
    ),
    Refused(
        "spec.processing.defaultKeySerde",
        "expected a serde as module:attribute or a name, got 'text'",
        {"processing": {"defaultKeySerde": "text"}},
    ),
    Refused(
        "spec.errors.processing",
        "expected an exception handler as module:attribute or a name, got 'ignore'",
        {"errors": {"processing": "ignore"}},
    ),
    Refused(
        "spec.errors.deadLetterTopic",
        "expected a name of ASCII letters, digits, '.', '_' and '-'",
        {"errors": {"deadLetterTopic": "a b"}},
    ),
    Refused(URL, "expected s3://bucket/prefix", {"remoteState": {"url": "ftp://bucket"}}),
    Refused(URL, "'Bucket' is not a bucket name: 3 to 63 small letters", {"remoteState": {"url": "s3://Bucket/x"}}),
    Refused(URL, PREFIX, {"remoteState": {"url": "s3://bucket/a b"}}),
    Refused(URL, PREFIX, {"remoteState": {"url": "s3://bucket/../b"}}),
    Refused(URL, CREDENTIALS, {"remoteState": {"url": "s3://key:secret@bucket/x"}}),
    Refused(
        "spec.remoteState.endpoint",
        "expected http://host:port or https://host:port, got 'minio:9000'",
        {"remoteState": {"url": S3, "endpoint": "minio:9000"}},
    ),
    Refused("spec.remoteState.endpoint", CREDENTIALS, {"remoteState": {"url": S3, "endpoint": "http://a:b@minio"}}),
    Refused(
        "spec.remoteState.kmsKeyId",
        "is only used with serverSideEncryption 'aws:kms'; set that, or remove it",
        {"remoteState": {"url": S3, "kmsKeyId": "k"}},
    ),
]

#: The refusals that only hold in a cluster, or are said by the API server in words of its own.
CLUSTER_ONLY = [
    Refused(URL, "is the disk of one pod, and is lost with it; use s3", {"remoteState": {"url": "file:///state"}}),
    Refused("spec.processing.standbyReplicas", STANDBYS, {"replicas": 3, "processing": {"standbyReplicas": 3}}),
    Refused("spec.processing.standbyReplicas", STANDBYS, {"replicas": 1, "processing": {"standbyReplicas": 2}}),
    Refused(
        "spec.processing.standbyReplicas",
        "(spec.autoscaling.minReplicas where",
        {"replicas": 9, "autoscaling": {"minReplicas": 2, "maxReplicas": 9}, "processing": {"standbyReplicas": 2}},
    ),
    Refused(
        "spec.errors.deadLetterTopic", "is what 'dead_letter' writes to", {"errors": {"production": "dead_letter"}}
    ),
    Refused(
        "spec.spark.trigger",
        "'availableNow' ends, so spec.spark.schedule has to say when",
        {"engine": "spark", "spark": {"trigger": "availableNow"}},
    ),
    Refused("spec.topology", "at least 1", {"topology": {}}),
    Refused("spec.topology", "at most 1", {"topology": {"entrypoint": "a:b", "graph": {}}}),
    Refused("spec.topology", "at most 1", {"topology": {"entrypoint": "a:b", "steps": []}}),
    Refused("spec.topology", "at most 1", {"topology": {"graph": {}, "steps": []}}),
    Refused("spec.topology", "Required value", {"topology": None}),
    Refused("spec.engine", 'supported values: "threads", "spark"', {"engine": "flink"}),
    Refused("spec.replicas", "greater than or equal to 0", {"replicas": -1}),
    Refused("spec.autoscaling.maxReplicas", "Required value", {"autoscaling": {}}),
    Refused("spec.autoscaling.minReplicas", "or equal to 1", {"autoscaling": {"minReplicas": 0, "maxReplicas": 1}}),
    Refused(
        "spec.processing.guarantee", 'values: "exactly_once", "at_least_once"', {"processing": {"guarantee": "maybe"}}
    ),
    Refused("spec.processing.threads", AT_LEAST_1, {"processing": {"threads": 0}}),
    Refused("spec.processing.threads", "must be of type integer", {"processing": {"threads": "two"}}),
    Refused("spec.processing.maxWarmupReplicas", "or equal to 1", {"processing": {"maxWarmupReplicas": 0}}),
    Refused("spec.kafka.secretRef.name", "Required value", {"kafka": {"bootstrapServers": "k:1", "secretRef": {}}}),
    Refused("spec.code.configMapRef.name", "should match", {"code": {"configMapRef": {"name": ""}}}),
    Refused("spec.code.configMapRef.name", "should match", {"code": {"configMapRef": {"name": "a/../b"}}}),
    Refused(URL, "Required value", {"remoteState": {}}),
    Refused(
        "spec.remoteState.serverSideEncryption",
        '"AES256", "aws:kms"',
        {"remoteState": {"url": S3, "serverSideEncryption": "x"}},
    ),
    Refused("spec.remoteState.retain", AT_LEAST_1, {"remoteState": {"url": S3, "retain": 0}}),
    Refused(
        "spec.rollout.topologyChange",
        'supported values: "Refuse", "Recreate"',
        {"rollout": {"topologyChange": "Force"}},
    ),
    Refused("spec.rollout.timeoutSeconds", AT_LEAST_1, {"rollout": {"timeoutSeconds": 0}}),
    Refused("spec.resources.limits.cpu", "must be of type integer,string", {"resources": {"limits": {"cpu": 0.5}}}),
    Refused("spec.image", "may not be more than 1024", {"image": "x" * 1025}),
    Refused(
        "spec.bootstrap.image",
        "may not be more than 1024",
        {"remoteState": {"url": S3}, "bootstrap": {"image": "x" * 1025}},
    ),
]

TAKEN: dict[str, dict[str, Any]] = {
    "nothing but what is required": {},
    "no replicas, whatever the standbys": {"replicas": 0, "processing": {"standbyReplicas": 5}},
    "the default standby of a single pod": {"replicas": 1, "processing": {"standbyReplicas": 1}},
    "a standby fewer than pods": {"replicas": 3, "processing": {"standbyReplicas": 2}},
    "as many standbys as the least pods allow": {
        "replicas": 1,
        "autoscaling": {"minReplicas": 3, "maxReplicas": 3},
        "processing": {"standbyReplicas": 2},
    },
    "a limit of gaps": {"rollout": {"maxGap": "200ms"}},
    "client properties of any kind": {
        "kafka": {"bootstrapServers": "a:1,b:2", "properties": {"a": True, "b": 0.5, "c": "x"}}
    },
    "a number of instances": {"processing": {"instances": 4, "commitIntervalMs": 0}},
    "quantities": {"resources": {"requests": {"cpu": "500m", "memory": 1024}, "limits": {"memory": "1.5Gi", "cpu": 2}}},
    "files in folders": {"code": {"files": {"package/part.py": "", ".hidden": "", "a..b.py": ""}}},
    "code of a ConfigMap": {"code": {"configMapRef": {"name": "code"}}},
    "a graph": {"topology": {"graph": {"sources": {"in": {"topics": ["a"]}}}}},
    "steps, with options and without": {"topology": {"steps": [{"stream": {"topics": ["a"]}}, "toTable", {"to": "b"}]}},
    "a bucket alone": {"remoteState": {"url": "s3://bucket"}},
    "every field of remote state": {
        "remoteState": {
            "url": "s3://my.bucket-1/a/b_c/",
            "endpoint": "http://minio:9000",
            "region": "eu-1",
            "pathStyle": True,
            "secretRef": {"name": "s3"},
            "serverSideEncryption": "aws:kms",
            "kmsKeyId": "arn:aws:kms:k",
            "snapshotIntervalSeconds": 5,
            "uploadBytesPerSecond": 1,
            "retain": 1,
            "maxUnusedBytes": 1,
        }
    },
    "a bootstrap of everything": {"remoteState": {"url": S3}, "bootstrap": {}},
    "every field of a bootstrap": {
        "remoteState": {"url": S3},
        "bootstrap": {
            "until": {"lines": {"0": 1200, "1": -1}, "others": {"0": -2}},
            "image": "registry.example/spark:1",
            "resources": {"requests": {"cpu": 1}, "limits": {"memory": "4Gi", "ephemeral-storage": "50Gi"}},
        },
    },
    "any template of a pod": {
        "podTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "x"}]}}
    },
}


@pytest.mark.parametrize("spec", TAKEN.values(), ids=TAKEN)
def test_takes(applications: Applications, spec: dict[str, Any]) -> None:
    created = applications.create(document(**spec))

    assert without_defaults(created["spec"], document(**spec)["spec"]) == document(**spec)["spec"]


def without_defaults(found: Any, given: Any) -> Any:
    """The part of what was kept that was given."""
    if isinstance(given, dict):
        return {name: without_defaults(found[name], value) for name, value in given.items()}
    return found


@pytest.mark.parametrize("case", [*SHARED, *CLUSTER_ONLY], ids=lambda case: f"{case.field} {case.words}")
def test_refuses(applications: Applications, case: Refused) -> None:
    told = refusal(lambda: applications.create(document(**case.spec)))

    assert [message for field, message in told if field == case.field and case.words in message]


@pytest.mark.parametrize("case", SHARED, ids=lambda case: f"{case.field} {case.words}")
def test_a_file_is_told_the_same(case: Refused) -> None:
    with pytest.raises(ManifestError) as raised:
        to_config(decode(document(**case.spec)), secret_dir=None)

    field = case.field.removeprefix("spec.")
    assert [fault for fault in raised.value.faults if field in fault.replace("application_id", "applicationId")]
    assert case.words in " ".join(raised.value.faults)


@pytest.mark.parametrize("name", ["with.dot", "9lives", "a" * 53])
def test_refuses_a_name_that_no_service_can_have(applications: Applications, name: str) -> None:
    ((field, message),) = refusal(lambda: applications.create(document(name)))

    assert field == "metadata.name"
    assert [fault for fault in name_faults(name) if fault.removeprefix("metadata.name: ") in message]


def test_takes_the_longest_name(applications: Applications) -> None:
    assert applications.create(document("a" * 52))["metadata"]["name"] == "a" * 52
