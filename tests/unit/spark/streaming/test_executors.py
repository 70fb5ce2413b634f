"""How many cores a driver of ``engine: spark`` plans for, whichever executor registers first."""

from __future__ import annotations

import pytest

from streamsapp_spark.streaming.executors import expected_cores


@pytest.mark.parametrize(
    ("master", "settings", "cores"),
    [
        ("local-cluster[3,1,1024]", {}, 3),
        ("local-cluster[2,4,1024]", {"spark.executor.cores": "2"}, 8),
        ("local-cluster[2,3,1024]", {"spark.executor.cores": "2"}, 4),
        ("local-cluster[2,4,1024]", {"spark.task.cpus": "2"}, 4),
        ("local[4]", {}, None),
        ("spark://host:7077", {}, None),
        ("spark://host:7077", {"spark.cores.max": "6"}, 6),
        ("k8s://https://host", {"spark.executor.instances": "3", "spark.executor.cores": "2"}, 6),
        ("spark://host:7077", {"spark.cores.max": "5", "spark.executor.cores": "2"}, 4),
        ("spark://host:7077", {"spark.cores.max": "6", "spark.task.cpus": "2"}, 3),
        ("k8s://https://host", {"spark.executor.instances": "3"}, 3),
        ("yarn", {"spark.executor.instances": "2", "spark.executor.cores": "4", "spark.task.cpus": "2"}, 4),
        ("yarn", {"spark.executor.instances": "3", "spark.dynamicAllocation.enabled": "true"}, None),
    ],
)
def test_settings_say_how_many_cores_there_will_be(master: str, settings: dict[str, str], cores: int | None) -> None:
    assert expected_cores(master, settings.get) == cores
