"""Dividing memory, and reading the control group's limit."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, strategies as st

from streamsapp.config.memory import MIB, MINIMUM_BYTES, MemoryBudget, available_memory, cgroup_limit


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@given(st.integers(MINIMUM_BYTES, 1 << 42))
def test_parts_never_exceed_seven_tenths_of_the_whole(total: int) -> None:
    budget = vars(MemoryBudget.divide(total))
    parts = [size for name, size in budget.items() if name != "total"]
    assert sum(parts) * 10 <= total * 7
    assert min(parts) >= MIB


def test_buffers_stop_growing_with_memory_while_caches_do_not() -> None:
    small, large = MemoryBudget.divide(64 << 30), MemoryBudget.divide(128 << 30)
    assert (small.input_buffers, small.consumer_queue) == (large.input_buffers, large.consumer_queue)
    assert large.block_cache >= 1.99 * small.block_cache


def test_reads_the_limit_of_version_2_inside_a_container(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/\n")
    write(tmp_path, "sys/fs/cgroup/memory.max", f"{512 * MIB}\n")
    assert cgroup_limit(tmp_path) == 512 * MIB


def test_the_tightest_limit_of_the_parents_counts(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/a/b\n")
    write(tmp_path, "sys/fs/cgroup/a/b/memory.max", "max\n")
    write(tmp_path, "sys/fs/cgroup/a/memory.max", f"{256 * MIB}\n")
    assert cgroup_limit(tmp_path) == 256 * MIB


def test_reads_the_limit_of_version_1(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/x\n")
    write(tmp_path, "sys/fs/cgroup/memory/x/memory.limit_in_bytes", f"{300 * MIB}\n")
    assert cgroup_limit(tmp_path) == 300 * MIB


def test_version_1_without_a_limit_is_no_limit(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "4:memory:/\n")
    write(tmp_path, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    assert cgroup_limit(tmp_path) is None


def test_a_machine_without_control_groups_gives_three_quarters(tmp_path: Path) -> None:
    limited = tmp_path / "limited"
    write(limited, "sys/fs/cgroup/memory.max", f"{200 * MIB}\n")
    assert cgroup_limit(tmp_path) is None
    assert available_memory(limited) == 200 * MIB
    assert available_memory(tmp_path) > 200 * MIB
