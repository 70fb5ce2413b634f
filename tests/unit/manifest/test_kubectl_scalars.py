"""Scalars and schedules as Kubernetes reads them. The expected values were written by sigs.k8s.io/yaml 1.6.0 and
github.com/robfig/cron/v3 3.0.1, of some hundred scalars by hand and by chance: ``kubectl_scalars.json`` has each as a
value, in JSON, and as a key; ``null`` where it is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamsapp.errors import ManifestError
from streamsapp.manifest.schedule import parse_schedule
from streamsapp.manifest.yaml_text import parse_yaml

SCALARS: list[tuple[str, str | None, str | None]] = json.loads(
    Path(__file__).with_name("kubectl_scalars.json").read_text("utf-8")
)


def test_every_scalar_is_read_as_kubectl_reads_it() -> None:
    found = []
    for text, value, _ in SCALARS:
        try:
            read: object = parse_yaml(f"a: {text}")
        except ManifestError:
            read = None
        wanted = None if value is None else {"a": json.loads(value)}
        if read != wanted or repr(read) != repr(wanted):  # 1 equals 1.0 and True
            found.append((text, read, wanted))
    assert found == []
    assert len(SCALARS) > 600


def test_every_key_is_read_as_kubectl_reads_it() -> None:
    found = []
    for text, _, key in SCALARS:
        try:
            read: object = parse_yaml(f"{text}: 1")
        except ManifestError:
            read = None
        if text != "<<" and read != (None if key is None else {key: 1}):
            found.append((text, read, key))
    assert found == []


def test_quotes_and_tags_make_text() -> None:
    read = parse_yaml("a: 'y'\nb: \"1e3\"\nc: !!str 08\nd: !!str null\n'1.0': |-\n  no\n")
    assert read == {"a": "y", "b": "1e3", "c": "08", "d": "null", "1.0": "no"}


def test_keys_that_are_one_key_in_json_are_given_twice() -> None:
    for text in ("1: a\n'1': b", "y: a\n'true': b", "1.0: a\n1: b", "0x10: a\n16: b"):
        with pytest.raises(ManifestError, match=r"line 2: the key '\w+' is given twice"):
            parse_yaml(text)


TAKEN = [
    "@hourly", "@daily", "@yearly", "@annually", "@monthly", "@weekly", "@midnight", "* * * * *", " 5 * * * * ",
    "*/2 * * * *", "1-5/2 * * * *", "1,2,3 * * * *", "1,,2 * * * *", ",1 * * * *", "? ? ? ? ?", "*-5 * * * *",
    "*--12 * * * *", "+1 * * * *", "*/+2 * * * *", "00005 * * * *", "*-*/2 * * * *", "1-5/100 * * * *", "*/61 * * * *",
    "* * * jan-DEC *", "* * * * Sun-sat", "* * * * mon-fri/2", "59/1 * * * *", "* * , * *",
]  # fmt: skip
REFUSED = [
    "@HOURLY", "@Daily", "@reboot", " @hourly", "@hourly ", "", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *",
    "* * 0 * *", "* * 32 * *", "* * * 13 *", "* * * 0 *", "* * * * 7", "*/0 * * * *", "5-1 * * * *", "1-2-3 * * * *",
    "1/2/3 * * * *", "-1 * * * *", "0x1 * * * *", "1_0 * * * *", "*/-1 * * * *", "1- * * * *", "/5 * * * *",
    "*/ * * * *", "* * L * *", "* * 15W * *", "* * * * 5#2", "** * * * *", "*5 * * * *", "1-*/2 * * * *",
    "* * * sun *", "jan * * * *", "99999999999999999999 * * * *", "*/99999999999999999999 * * * *",
    "TZ=UTC * * * * *", "CRON_TZ=Europe/Berlin 0 2 * * *",
]  # fmt: skip


@pytest.mark.parametrize("text", TAKEN)
def test_schedules_that_kubernetes_takes_are_taken(text: str) -> None:
    parse_schedule(text)


@pytest.mark.parametrize("text", REFUSED)
def test_schedules_that_kubernetes_refuses_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^has |^names "):
        parse_schedule(text)


def test_days_are_open_where_kubernetes_leaves_them_open() -> None:
    """If both kinds of days are restricted, either is enough."""
    assert parse_schedule("0 0 1 * mon").either_day
    assert parse_schedule("0 0 */2 * mon").either_day
    for text in ("0 0 * * mon", "0 0 ? * mon", "0 0 */1 * mon", "0 0 *-5 * mon", "0 0 1,* * mon", "0 0 1 * */1"):
        assert not parse_schedule(text).either_day
