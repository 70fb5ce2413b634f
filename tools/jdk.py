"""Finds the JDK that programs in Java are compiled with: the programs that tests and benchmarks compare with.

Called by the set-up and by what compiles. The broker alone needs only Java's runtime (``streamsapp.local.java``).
"""

from __future__ import annotations

import shutil
from pathlib import Path

from streamsapp.errors import StreamsError
from streamsapp.local.java import MINIMUM_JAVA, find_java

#: For each package manager the one command that brings a JDK.
_INSTALL_COMMANDS = {
    "apt-get": "sudo apt-get install -y openjdk-17-jdk-headless",
    "dnf": "sudo dnf install -y java-17-openjdk-devel",
    "pacman": "sudo pacman -S --noconfirm jdk17-openjdk",
    "apk": "sudo apk add openjdk17-jdk",
    "brew": "brew install openjdk@17",
}


def install_command() -> str:
    """Returns the one command that brings a JDK to this machine."""
    for manager, command in _INSTALL_COMMANDS.items():
        if shutil.which(manager):
            return command
    return f"install a JDK {MINIMUM_JAVA} or newer, and put it on PATH or its folder in JAVA_HOME"


def program(name: str) -> Path:
    """Returns a program of the JDK, such as ``javac``; raises ``StreamsError`` with the remedy where there is none."""
    found = find_java().with_name(name)
    if not found.exists():
        raise StreamsError(f"a whole JDK is needed, and there is no {found}: {install_command()}")
    return found
