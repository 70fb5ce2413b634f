"""On a machine where no node can run, the command says what it would need and ends with exit code 2."""

from __future__ import annotations

import os
import platform
import sys

import pytest

from cluster.__main__ import main


def test_says_that_a_node_needs_root(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(sys, "argv", ["cluster", "up"])
    assert main() == 2
    said = capsys.readouterr()
    assert "cluster-up failed: a Kubernetes node is brought up by root" in said.err
    assert said.out == ""


def test_says_that_a_node_needs_linux(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(sys, "argv", ["cluster", "down"])
    assert main() == 2
    assert "a Kubernetes node needs Linux, this is Darwin; elsewhere, use a cluster you have" in capsys.readouterr().err
