"""``streamsapp --version``: this library and what runs beneath it. Runs on the main thread."""

from __future__ import annotations

import argparse
import platform
import re
import ssl
import tempfile
from pathlib import Path
from typing import NoReturn

import streamsapp
from streamsapp.errors import UserInputError


class PrintVersion(argparse.Action):
    """Prints it and ends; the clients are loaded only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        try:
            print("\n".join(version_lines()))
        except UserInputError as error:
            parser.error(str(error))
        parser.exit()


def version_lines() -> list[str]:
    """The version of each part, one a line."""
    import confluent_kafka

    from streamsapp.config.known_properties import CLIENTS, OWN
    from streamsapp.runtime.data_path import ENGINE

    return [
        f"streamsapp {streamsapp.__version__}",
        f"Python {platform.python_version()} ({platform.system()} {platform.machine()})",
        f"librdkafka {confluent_kafka.libversion()[0]}",
        f"RocksDB {_rocksdb_version()}",
        f"TLS: {ssl.OPENSSL_VERSION}",
        f"clients: {', '.join(CLIENTS)} ({OWN} unless client says otherwise)",
        f"engine: {ENGINE}",
    ]


def _rocksdb_version() -> str:
    """The one that a new database says it was made by."""
    from rocksdict import Rdict

    with tempfile.TemporaryDirectory() as folder:
        Rdict(folder).close()
        options = next(Path(folder).glob("OPTIONS-*")).read_text("utf-8")
    found = re.search(r"^\s*rocksdb_version=(\S+)$", options, re.MULTILINE)
    return "unknown" if found is None else found[1]
