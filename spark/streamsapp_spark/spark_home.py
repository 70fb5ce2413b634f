"""A home of Spark's without the archives of its own Python modules. Made on the driver's main thread.

Java puts ``python/lib/pyspark.zip`` of its home before all that its Python processes import, and from an archive Python
compiles every module anew in every process: half a second of CPU for each of the five that a query starts. Those on
this machine run in the Python that runs the driver, where the same modules are installed, and compiled.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pyspark
from pyspark.find_spark_home import _find_spark_home

from streamsapp_spark.own_folder import own_folder

_VARIABLE = "SPARK_HOME"
#: The parts of a home that starting Java takes.
_PARTS = ("bin", "conf", "jars")


def leave_out_archives() -> None:
    """Java that this process starts from now on has such a home, until the process ends. Nothing is done where Spark is
    not the installed package, its Python processes are not like this one, or Java has been started already."""
    installed = Path(pyspark.__file__).parent
    if {_VARIABLE, "PYSPARK_GATEWAY_PORT"} & os.environ.keys() or os.environ.get("PYSPARK_PYTHON") != sys.executable:
        return
    if Path(_find_spark_home()) != installed:  # type: ignore[no-untyped-call]
        return
    home = Path(tempfile.mkdtemp(prefix="home-", dir=own_folder()))
    for part in _PARTS:
        if (installed / part).exists():
            (home / part).symlink_to(installed / part)
    os.environ[_VARIABLE] = str(home)
