"""A home of Spark's without the archives of its own Python modules. Made on the driver's main thread.

Java puts ``python/lib/pyspark.zip`` of its home before all that its Python processes import, and from an archive Python
compiles every module anew in every process: half a second of CPU for each of the five that a query starts. Processes on
this machine run in the Python that runs the driver, where the same modules are installed, and compiled. Executors of a
cluster have homes of their own.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pyspark
from pyspark.find_spark_home import _find_spark_home

from streamsapp_spark.session.class_archive import lasting_home, link_parts
from streamsapp_spark.session.java_process import java_path
from streamsapp_spark.session.private_folder import private_folder

_VARIABLE = "SPARK_HOME"


def leave_out_archives() -> Path | None:
    """Java that this process starts from now on has such a home; returns it if it stays when the process ends. Nothing
    is done where Spark is not the installed package, its Python processes are not like this one, or Java has been
    started already."""
    installed = Path(pyspark.__file__).parent
    if {_VARIABLE, "PYSPARK_GATEWAY_PORT"} & os.environ.keys() or not _is_like_this_one():
        return None
    if Path(_find_spark_home()) != installed:
        return None
    java = java_path()
    lasting = None if java is None else lasting_home(installed, java)
    if lasting is None:
        home = Path(tempfile.mkdtemp(prefix="home-", dir=private_folder()))
        link_parts(home, installed)
    os.environ[_VARIABLE] = str(lasting or home)
    return lasting


def _is_like_this_one() -> bool:
    """Says if the Python that Spark starts is the one that runs this."""
    started = shutil.which(os.environ.get("PYSPARK_PYTHON", "python3"))
    if started is None:
        return False
    ours, theirs = Path(sys.executable), Path(started)
    return theirs.parent.resolve() == ours.parent.resolve() and theirs.resolve() == ours.resolve()
