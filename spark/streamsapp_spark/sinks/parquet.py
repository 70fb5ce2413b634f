"""A folder of Parquet files, exact by their names.

Used on the driver; ``add`` on the thread on which Spark calls for each batch.
"""

from __future__ import annotations

from uuid import uuid4

from pyspark.sql import DataFrame

from streamsapp.manifest.model import SinkSpec
from streamsapp_spark.sinks.folder import Folder
from streamsapp_spark.sinks.writer_options import writer_options

#: Rows of a file at most, unless ``maxRecordsPerFile`` of the options says otherwise.
_ROWS = 5_000_000
#: Readers pass over names that begin like that.
_STAGING = "_staging"


class ParquetFolder:
    """A folder of whole files, named by batch.

    A file is written elsewhere and renamed when it is whole. The same records give files of the same names, so a batch
    that is added again, even by a driver that another one has replaced, replaces what it added.
    """

    def __init__(self, folder: Folder, sink: SinkSpec) -> None:
        self._folder = folder
        self._options = {"maxRecordsPerFile": str(_ROWS)} | writer_options(sink)
        folder.remove(_STAGING)  # of a driver that was killed

    def has_rows(self) -> bool:
        return any(not name.startswith(("_", ".")) for name in self._folder.names())

    def add(self, rows: DataFrame, query: str, batch: int) -> None:
        folder, staging = self._folder, f"{_STAGING}/{uuid4()}"
        rows.coalesce(1).write.format("parquet").options(**self._options).save(folder.at(staging))
        made = [name for name in folder.names(staging) if name.startswith("part-")]
        for number, name in enumerate(sorted(made, key=lambda name: (len(name), name))):
            folder.move(f"{staging}/{name}", _file(batch, number))
        # A topic that is compacted may have fewer records now than when the batch was added before.
        number = len(made)
        while folder.remove(_file(batch, number)):
            number += 1
        folder.remove(staging)


def _file(batch: int, number: int) -> str:
    return f"batch-{batch:010d}-{number:05d}.parquet"
