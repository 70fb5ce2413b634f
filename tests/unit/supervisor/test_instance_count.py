"""How many instances a pod runs."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from streamsapp.config.memory import MIB, cgroup_limit
from streamsapp.errors import ManifestError
from streamsapp.manifest.model import StreamsApp
from streamsapp.supervisor.instance_count import cpu_limit, instances_of


def app(cpu: str | int | None = None) -> StreamsApp:
    limits = {} if cpu is None else {"cpu": cpu}
    document = {
        "apiVersion": "streamsapp.dev/v1alpha1",
        "kind": "StreamsApp",
        "metadata": {"name": "app"},
        "spec": {"topology": {"entrypoint": "a:b"}, "resources": {"limits": limits}},
    }
    return msgspec.convert(document, StreamsApp)


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("asked", "cores", "memory_mib", "instances"),
    [
        ("auto", None, 4096, 1),
        ("auto", Decimal("0.5"), 4096, 1),
        ("auto", Decimal("3.9"), 4096, 3),
        ("auto", Decimal(8), 300, 2),
        (3, Decimal(1), 4096, 3),
        (1, None, 100, 1),
    ],
)
def test_auto_takes_whole_cores_and_what_memory_allows(
    asked: int | Literal["auto"], cores: Decimal | None, memory_mib: int, instances: int
) -> None:
    assert instances_of(asked, cores, memory_mib * MIB) == instances


def test_a_number_that_memory_does_not_allow_is_refused() -> None:
    with pytest.raises(ManifestError, match=r"^spec.processing.instances: 3 instances leave 100 MiB"):
        instances_of(3, None, 300 * MIB)


@pytest.mark.parametrize(
    ("group", "file", "text", "cores"),
    [
        ("0::/\n", "cpu.max", "250000 100000\n", Decimal("2.5")),
        ("0::/a/b\n", "a/cpu.max", "100000 100000\n", Decimal(1)),
        ("0::/\n", "cpu.max", "max 100000\n", None),
    ],
)
def test_reads_the_limit_of_version_2(tmp_path: Path, group: str, file: str, text: str, cores: Decimal | None) -> None:
    write(tmp_path, "proc/self/cgroup", group)
    write(tmp_path, f"sys/fs/cgroup/{file}", text)
    assert cpu_limit(app(), tmp_path) == cores


POD = "/kubepods/burstable/pod1c3/f00"


@pytest.mark.parametrize(
    ("groups", "files"),
    [
        pytest.param("0::/\n", {"cpu.max": "1500000 1000000\n", "memory.max": "536870912\n"}, id="version 2"),
        pytest.param(
            f"0::{POD}\n",
            {"cpu.max": "150000 100000\n", "memory.max": "536870912\n"},
            id="version 2 by the host's path",
        ),
        pytest.param(
            f"5:memory:{POD}\n4:cpu,cpuacct:{POD}\n0::/\n",
            {
                "cpu/cpu.cfs_quota_us": "150000\n",
                "cpu/cpu.cfs_period_us": "100000\n",
                "memory/memory.limit_in_bytes": "536870912\n",
            },
            id="version 1 by the host's path",
        ),
        pytest.param(
            f"5:memory:{POD}\n4:cpu,cpuacct:{POD}\n",
            {
                f"cpu,cpuacct{POD}/cpu.cfs_quota_us": "150000\n",
                f"cpu,cpuacct{POD}/cpu.cfs_period_us": "100000\n",
                f"memory{POD}/memory.limit_in_bytes": "536870912\n",
            },
            id="version 1 with the host's mounts",
        ),
        pytest.param(
            f"5:memory:{POD}\n4:cpu:{POD}\n0::/\n",
            {
                "unified/cgroup.controllers": "\n",
                f"cpu{POD}/cpu.cfs_quota_us": "150000\n",
                f"cpu{POD}/cpu.cfs_period_us": "100000\n",
                f"memory{POD}/memory.limit_in_bytes": "9223372036854771712\n",
                "memory/kubepods/burstable/pod1c3/memory.limit_in_bytes": "536870912\n",
            },
            id="both versions, the pod limited and not the container",
        ),
    ],
)
def test_a_container_finds_its_limits_however_control_groups_are_laid_out(
    tmp_path: Path, groups: str, files: dict[str, str]
) -> None:
    write(tmp_path, "proc/self/cgroup", groups)
    for name, text in files.items():
        write(tmp_path, f"sys/fs/cgroup/{name}", text)

    assert cpu_limit(app(), tmp_path) == Decimal("1.5")
    assert cgroup_limit(tmp_path) == 512 * MIB


@pytest.mark.parametrize(("quota", "cores"), [("400000", Decimal(4)), ("-1", None)])
def test_reads_the_limit_of_version_1(tmp_path: Path, quota: str, cores: Decimal | None) -> None:
    write(tmp_path, "proc/self/cgroup", "4:cpu,cpuacct:/x\n")
    write(tmp_path, "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", f"{quota}\n")
    write(tmp_path, "sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n")
    assert cpu_limit(app(), tmp_path) == cores


def test_the_manifest_counts_where_nothing_is_enforced(tmp_path: Path) -> None:
    assert cpu_limit(app("1500m"), tmp_path) == Decimal("1.5")
    write(tmp_path, "sys/fs/cgroup/cpu.max", "300000 100000\n")
    assert cpu_limit(app("1500m"), tmp_path) == 3
