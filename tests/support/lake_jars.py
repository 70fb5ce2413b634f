"""Delta Lake and Iceberg for Spark 4.0, fetched from Maven once.

Called by tests of tables of theirs.
"""

from __future__ import annotations

import pyspark
import pytest

from streamsapp.local.downloads import Artifact
from streamsapp.local.jars import Jars

#: Of tests that need them.
WITHOUT_LAKE = pytest.mark.skipif(
    not pyspark.__version__.startswith("4.0."),
    reason="neither has a release for this Spark; tests/integration/release/test_oldest_versions.py runs this",
)

#: Delta Lake: the libraries that Spark 4.0 does not bring itself.
DELTA = Jars(
    "delta-4.0.0",
    [
        Artifact(
            "io/delta/delta-spark_2.13/4.0.0/delta-spark_2.13-4.0.0.jar",
            "538511702aae0ef6973a6a70af3d4543c9009f8edbed786a00737e2d3cd7f04e",
            7_727_374,
        ),
        Artifact(
            "io/delta/delta-storage/4.0.0/delta-storage-4.0.0.jar",
            "9bdb9fb450f1e119eba53feb427f331b0d09072d26485b8273883ad72c9a2e1d",
            69_732,
        ),
    ],
)

ICEBERG = Jars(
    "iceberg-1.11.0",
    [
        Artifact(
            "org/apache/iceberg/iceberg-spark-runtime-4.0_2.13/1.11.0/iceberg-spark-runtime-4.0_2.13-1.11.0.jar",
            "63c3b812549dc232c1920865ff42436df8604a9bbacd693930985c06bd97e6dc",
            47_926_285,
        )
    ],
)
