"""Changes of the spec: good ones are rolled out, bad ones are not, and either way nothing is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cluster_world import WORDCOUNT, Running

_CRD = "streamsapps.streamsapp.dev"
_MISSING_IMAGE = "localhost/no-such-image:1"


@pytest.mark.long
def test_an_image_that_cannot_be_pulled_is_told_of_and_no_pod_is_touched(wordcount: Running) -> None:
    before = wordcount.app.uids()

    wordcount.app.apply(wordcount.world.manifest(WORDCOUNT, image=_MISSING_IMAGE))
    degraded = wordcount.app.wait(lambda: _condition(wordcount, "Degraded", "True"), "what is wrong")

    assert _MISSING_IMAGE in degraded["message"]
    assert wordcount.app.uids() == before
    wordcount.load.check()


@pytest.mark.long
def test_a_revision_whose_first_pod_does_not_become_ready_is_rolled_back(wordcount: Running) -> None:
    before = wordcount.app.uids()

    broken = wordcount.world.manifest(
        WORDCOUNT, kafka={"bootstrapServers": "nobody:9092"}, rollout={"progressDeadlineSeconds": 60}
    )
    wordcount.app.apply(broken)
    rolled_back = wordcount.app.wait(
        lambda: (it := wordcount.app.rollout()).get("phase") == "RolledBack" and it, "a rollback"
    )

    after = wordcount.app.uids()
    assert sum(before[name] != after[name] for name in before) == 1, "only the first pod was ever touched"
    degraded = wordcount.app.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "RolledBack")
    assert "progressDeadlineSeconds" in degraded["message"], "why, and what decides"
    assert wordcount.app.status()["workingMemory"]["failedRevision"] == rolled_back["revision"]
    assert len(wordcount.observer.most_down) == 1
    wordcount.load.check()


@pytest.mark.long
def test_a_setting_is_rolled_out_pod_by_pod(wordcount: Running) -> None:
    before = wordcount.app.uids()
    manifest = wordcount.world.manifest(WORDCOUNT)
    manifest["spec"]["processing"]["commitIntervalMs"] = 50

    wordcount.app.apply(manifest)
    wordcount.app.wait_replaced(before)

    assert len(wordcount.observer.most_down) == 1
    wordcount.load.check()


@pytest.mark.long
def test_a_topology_with_one_more_part_is_rolled_out_beside_the_old_one(wordcount: Running) -> None:
    before = wordcount.app.uids()
    wordcount.world.create_topics("other-lines", "other-lines-copied")

    part = 'builder.stream("other-lines").to("other-lines-copied")'
    wordcount.app.apply(_with_code(wordcount, "return builder", f"{part}\n    return builder"))
    wordcount.app.wait_replaced(before)

    assert len(wordcount.observer.most_down) == 1
    wordcount.load.check()


@pytest.mark.long
def test_a_topology_whose_state_would_be_read_by_others_is_refused_and_nothing_is_touched(wordcount: Running) -> None:
    before = wordcount.app.uids()

    wordcount.app.apply(_with_code(wordcount, '"lines"', '"other-lines"'))
    degraded = wordcount.app.wait(
        lambda: (it := wordcount.app.condition("Degraded")).get("reason") == "TopologyRefused" and it, "a refusal"
    )

    assert "other-lines" in degraded["message"]
    assert "Recreate" in degraded["message"], "the way out is named"
    assert wordcount.app.uids() == before
    wordcount.load.wait_for_counts()
    wordcount.app.wait(lambda: wordcount.observer.told("TopologyRefused"), "an event")


@pytest.mark.long
def test_an_upgrade_of_the_operator_and_its_resource_definition_leaves_applications_alone(wordcount: Running) -> None:
    before, revision = wordcount.app.uids(), wordcount.app.rollout()["revision"]
    operators = set(wordcount.world.operator_pods())
    newest = _columns(wordcount)
    without_last = {"spec": {"versions": [_version(wordcount) | {"additionalPrinterColumns": newest[:-1]}]}}
    wordcount.world.kubectl("patch", "crd", _CRD, "--type=merge", f"--patch={json.dumps(without_last)}")
    assert _columns(wordcount) == newest[:-1], "as an older chart may have had it"

    wordcount.world.helm("upgrade", "--set=operator.logLevel=debug")
    wordcount.app.wait(lambda: not operators & set(wordcount.world.operator_pods()), "another operator")
    wordcount.app.wait_settled()

    assert _columns(wordcount) == newest
    assert wordcount.app.uids() == before
    assert wordcount.app.rollout()["revision"] == revision
    assert wordcount.observer.removals == []
    wordcount.load.check()


@pytest.mark.long
def test_an_application_is_suspended_and_goes_on_where_it_was(wordcount: Running) -> None:
    wordcount.app.scale(0)
    wordcount.app.wait(lambda: not wordcount.app.pods() and wordcount.app.status()["phase"] == "Suspended", "no pods")

    wordcount.app.scale(3)
    wordcount.app.wait_settled()

    wordcount.load.check()


def _version(running: Running) -> dict[str, Any]:
    definition = running.world.kubectl.json("get", "crd", _CRD)
    return dict(definition["spec"]["versions"][0])


def _columns(running: Running) -> list[dict[str, Any]]:
    return list(_version(running)["additionalPrinterColumns"])


def _condition(running: Running, kind: str, status: str) -> dict[str, Any] | None:
    found = running.app.condition(kind)
    return found if found.get("status") == status else None


def _with_code(running: Running, old: str, new: str) -> dict[str, Any]:
    manifest = running.world.manifest(WORDCOUNT)
    files = manifest["spec"]["code"]["files"]
    assert old in files["wordcount.py"]
    files["wordcount.py"] = files["wordcount.py"].replace(old, new)
    return manifest
