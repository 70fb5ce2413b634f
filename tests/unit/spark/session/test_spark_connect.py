"""A session of Spark Connect has no context of Spark's, and is refused by name."""

from __future__ import annotations

from typing import Any, cast

import pytest

from streamsapp import Consumed, StreamsBuilder, StreamsConfig
from streamsapp.config import RemoteStateConfig
from streamsapp.errors import ConfigError
from streamsapp_spark import run


class ConnectSession:
    """As much of it as is looked at: it is no ``SparkSession`` of PySpark's own."""


def test_a_session_of_spark_connect_is_refused(tmp_path: Any) -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed()).to("out")
    remote = RemoteStateConfig(url=tmp_path.as_uri())
    config = StreamsConfig(application_id="a", bootstrap_servers="none:1", remote_state=remote)
    with pytest.raises(ConfigError, match="spark: is a session of Spark Connect, and bootstrap and run need Spark's"):
        run(builder.build(), config, spark=cast(Any, ConnectSession()))
