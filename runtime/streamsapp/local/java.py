"""Finds the programs the embedded broker needs: a Java runtime and Maven.

Called by the embedded broker, on the thread that starts it, and by the set-up of a development machine.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from streamsapp.errors import StreamsError

#: Kafka 4's broker refuses older ones.
MINIMUM_JAVA = 17

#: For each package manager the one command that brings Java and Maven.
_INSTALL_COMMANDS = {
    "apt-get": "sudo apt-get install -y openjdk-17-jdk-headless maven",
    "dnf": "sudo dnf install -y java-17-openjdk-devel maven",
    "pacman": "sudo pacman -S --noconfirm jdk17-openjdk maven",
    "apk": "sudo apk add openjdk17-jdk maven",
    "brew": "brew install openjdk@17 maven",
}


def install_command() -> str:
    """The one command that brings Java and Maven to this machine."""
    for manager, command in _INSTALL_COMMANDS.items():
        if shutil.which(manager):
            return command
    return f"install a JDK {MINIMUM_JAVA} or newer and Apache Maven, and put both on PATH"


def find_java() -> Path:
    """A ``java`` that can run the broker: the one of ``JAVA_HOME``, else the one on ``PATH``."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    where = f"in JAVA_HOME={home}" if home else "on PATH"
    if found is None:
        raise StreamsError(f"the Kafka broker needs Java and there is none {where}: {install_command()}")
    version = _major_version(found)
    if version < MINIMUM_JAVA:
        raise StreamsError(
            f"the Kafka broker needs Java {MINIMUM_JAVA} or newer, the one {where} is {version}: {install_command()}"
        )
    return Path(found)


def find_maven() -> Path:
    """``mvn``, which fetches the broker's jars."""
    found = shutil.which("mvn")
    if found is None:
        raise StreamsError(f"Maven fetches the Kafka broker and is not on PATH: {install_command()}")
    return Path(found)


def _major_version(java: str) -> int:
    # macOS ships a stub that is on PATH, fails and prints no version: 0 makes it "too old".
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(\d+)', answer.stderr)
    return int(match.group(1)) if match else 0
