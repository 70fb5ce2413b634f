"""Manifests that were written to do harm, or by chance: one line for each fault, and nothing else ever."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings, strategies as st

from streamsapp.cli.main import main
from streamsapp.errors import ManifestError
from streamsapp.manifest import StreamsApp, decode
from streamsapp.manifest.document_checks import MAX_BYTES
from streamsapp.manifest.to_config import to_config
from streamsapp.manifest.yaml_text import parse_yaml

VALID = """
apiVersion: streamsapp.dev/v1alpha1
kind: StreamsApp
metadata: {name: wordcount, labels: {a: b}}
spec:
  replicas: 3
  autoscaling: {minReplicas: 2, maxReplicas: 8}
  topology:
    steps:
      - stream: {pattern: "in.*", keySerde: string}
      - filter: {contains: x}
      - groupByKey: {}
      - count: {store: counts}
  code: {files: {wordcount.py: "x = 1"}}
  kafka: {bootstrapServers: "kafka:9092", properties: {ssl.ca.location: eu, sasl.mechanism: PLAIN}}
  processing: {guarantee: exactly_once, threads: 2, instances: auto, commitIntervalMs: 100}
  remoteState: {url: s3://bucket/prefix, endpoint: http://minio:9000, snapshotIntervalSeconds: 60}
  bootstrap: {until: {in: {"0": 12}}}
  rollout: {maxStandbyLag: 1000}
  resources: {limits: {memory: 2Gi}}
  podTemplate: {spec: {nodeSelector: {a: b}}}
"""


def decoded(text: str) -> StreamsApp | list[str]:
    """The manifest in a text, or its faults; any other exception fails the test."""
    try:
        app = decode(parse_yaml(text))
        to_config(app, secret_dir=None)
    except ManifestError as error:
        return error.faults
    return app


def faults(text: str) -> list[str]:
    told = decoded(text)
    assert isinstance(told, list)
    return told


def nested(levels: int) -> str:
    return "{a: " * levels + "1" + "}" * levels


def bomb(merge: str) -> str:
    lines = ["a0: &a0 {k: v}"]
    lines += [f"a{n}: &a{n} {merge.format(*[f'*a{n - 1}'] * 9)}" for n in range(1, 10)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (f"spec: {nested(500)}", "line 1: is nested more than 64 levels deep; a manifest needs no more"),
        ("a: " + "[" * 100_000, "line 1: is nested more than 64 levels deep; a manifest needs no more"),
        (
            bomb("[{}, {}, {}, {}, {}, {}, {}, {}, {}]"),
            "line 6: stands for more than 100000 values, aliases written out; use fewer of them",
        ),
        (
            bomb("{{<<: [{}, {}, {}, {}, {}, {}, {}, {}, {}]}}"),
            "line 6: stands for more than 100000 values, aliases written out; use fewer of them",
        ),
        ("a: &a [*a]", "line 1: there is no anchor 'a' before it; write the value out"),
        ("a: !!python/name:os.system x", "line 1: the tag !!python/name:os.system has no meaning in a manifest; "),
        ("a: !!timestamp 2024-99-99", "line 1: the tag !!timestamp has no meaning in a manifest; leave it out"),
        ("a: !mine {b: c}", "line 1: the tag !mine has no meaning in a manifest; leave it out"),
        ("a: .inf", "line 1: '.inf' is no number that can be read; put it in quotes if it is text"),
        ("{[a]: b}", "line 1: a key must be text; put it in quotes"),
        ("a: 1\n? {b: c}\n: d", "line 2: a key must be text; put it in quotes"),
        ("null: b", "line 1: a key must be text; put it in quotes"),
        ("<<: 5", "line 1: << merges mappings only; write the fields out"),
        ("a: *b", "line 1: there is no anchor 'b' before it; write the value out"),
        ("a: {b: c", "line 2: did not find expected ',' or '}'; correct the YAML there"),
        ("x" * (MAX_BYTES + 1), f"the document: has more than {MAX_BYTES} bytes; divide it, or put"),
    ],
    ids=range(16),
)  # fmt: skip
def test_yaml_that_no_manifest_needs_is_refused_with_its_line(text: str, fault: str) -> None:
    (told,) = faults(text)
    assert told.startswith(fault)


def test_a_date_is_text_as_for_kubectl() -> None:
    assert parse_yaml("a: 2024-99-99\n5: b") == {"a": "2024-99-99", "5": "b"}


def test_merged_fields_yield_to_those_that_are_written_and_to_earlier_ones() -> None:
    text = "a: &a {x: 1, w: 1}\nb: &b {x: 2, z: 2}\nc: {<<: [*a, *b], w: 3}"
    assert parse_yaml(text) == yaml.safe_load(text)


def with_spec(**spec: Any) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(VALID)
    document["spec"] |= spec
    return document


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"image": "\ud800"}, r"spec.image: '\ud800' has half a character (a surrogate alone); correct it"),
        ({"podTemplate": {5: 6}}, "spec.podTemplate: the key 5 must be text; put it in quotes"),
        ({"podTemplate": {"x" * 2000: 6}}, "spec.podTemplate: the key 'xxxxxxx"),
        ({"podTemplate": {"a": object()}}, "spec.podTemplate.a: expected text, a number, true, false, a list or a ma"),
        ({"replicas": 1 << 70}, "spec.replicas: expected a number of at most 64 bits"),
        ({"replicas": 1 << 40}, "spec.replicas: expected an integer ≤ 1000, got 1099511627776"),
        ({"image": "a\nspec.evil: \x1b[2J", "engine": "x"}, "spec.engine: expected 'spark' or 'threads', got 'x'"),
        ({"a\x1b[2J\nb": 1}, r"spec.a\x1b[2J b: unknown field; known fields are "),
        ({"topology": {"steps": [{"stream": {"pattern": "(" * 900}}]}}, "spec.topology.steps[0].stream.pattern: '("),
        ({"topology": {"steps": [{"stream": {"pattern": "a{999999999999}"}}]}}, "spec.topology.steps[0].stream.patt"),
        ({"topology": {"steps": [{"stream": {"pattern": "a" * 9999}}]}}, "spec.topology.steps[0].stream.pattern: has"),
        ({"kafka": {"bootstrapServers": "me:secret@kafka:9092"}}, "spec.kafka.bootstrapServers: must not carry cred"),
        ({"kafka": {"bootstrapServers": "kafka:99999"}}, "spec.kafka.bootstrapServers: expected host:port, separated"),
        ({"kafka": {"properties": {"a": "https://me:secret@idp"}}}, "spec.kafka.properties.a: must not carry credent"),
        ({"remoteState": {"url": "s3://me:secret@bucket"}}, "spec.remoteState.url: must not carry credentials; put"),
        ({"remoteState": {"url": "x://me:secret@bucket"}}, "spec.remoteState.url: expected s3://bucket/prefix or fi"),
        ({"remoteState": {"url": "s3://[bucket"}}, "spec.remoteState.url: is not a URL: Invalid IPv6 URL; correct it"),
        (
            {"remoteState": {"url": "s3://bucket", "endpoint": "https://me:secret@s3"}},
            "spec.remoteState.endpoint: must not carry credentials; put them into the secret's files",
        ),
        ({"code": {"files": {"a": "", "a/b.py": ""}}}, "spec.code.files.a: is the folder of another file, too; "),
        ({"code": {"files": {"a\0": ""}}}, r"spec.code.files.a\x00: expected a relative path without '..', such as"),
        ({"bootstrap": {"until": {"in": {"²": 5}}}}, "spec.bootstrap.until: expected 'latest', or an offset for each"),
    ],
    ids=range(21),
)  # fmt: skip
def test_a_hostile_field_is_told_in_one_line_that_shows_no_secret(spec: dict[str, Any], fault: str) -> None:
    with pytest.raises(ManifestError) as raised:
        decode(with_spec(**spec))

    told = raised.value.faults
    assert [line for line in told if line.startswith(fault)], told
    assert all(line.isprintable() and "secret@" not in line for line in told)


def test_a_hundred_thousand_misspelt_fields_are_not_all_told() -> None:
    with pytest.raises(ManifestError) as raised:
        decode(with_spec(**{f"field{number}": 1 for number in range(90_000)}))

    assert len(raised.value.faults) == 100


def test_a_file_that_is_not_text_is_told_and_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "app.yaml"
    path.write_bytes(b"\xff\xfe\x00")

    assert main(["validate", "-f", str(path)]) == 2
    assert capsys.readouterr().err == f"{path}: cannot be read: it is not UTF-8 text\n"


# ---- by chance -----------------------------------------------------------------------------------------------------

YAMLISH = st.lists(
    st.sampled_from([
        *"abc:,-[]{}#&*!|>'\"%@` \t\n~?", "\n  ", "- ", ": ", "<<: ", "&a ", "*a", "!!int ", "!!float ", "!!bool ",
        "!!timestamp ", "!!set ", "!!python/object:os.system ", "2024-01-01", "0x", "1e999", "12:30:45", ".nan", "null",
        "yes", "---\n", "...\n", "%YAML 1.1\n", '"\\ud800"', "\ufeff", "\x85", "=", "spec", "metadata", "name", "0o8",
        "topology", "steps", "stream", "kafka", "processing",
    ])
    | st.text(max_size=4),
    max_size=60,
).map("".join)  # fmt: skip

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(min_value=1 << 62), st.floats(), st.text(max_size=8),
    st.sampled_from(["", ":", "a:b", "\ud800", "s3://[", "//u:p@h", "9" * 80, "1e99", "../x", "(", "*", "latest"]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inside:
        yield from places(each, (*path, key))


PLACES = list(places(yaml.safe_load(VALID)))[1:]


@given(YAMLISH)
def test_random_yaml_is_a_manifest_or_has_faults(text: str) -> None:
    decoded(text)


@given(st.data())
def test_a_valid_text_with_something_put_in_is_a_manifest_or_has_faults(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(VALID)))
    end = data.draw(st.integers(start, min(len(VALID), start + 20)))
    decoded(VALID[:start] + data.draw(YAMLISH) + VALID[end:])


@given(st.lists(st.tuples(st.sampled_from(PLACES), VALUES), min_size=1, max_size=3), st.booleans())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_a_valid_document_with_other_values_is_a_manifest_or_has_faults(
    changes: list[tuple[tuple[Any, ...], Any]], as_key: bool
) -> None:
    document = copy.deepcopy(yaml.safe_load(VALID))
    for path, value in changes:
        inside = document
        for key in path[:-1]:
            inside = inside[key] if isinstance(inside, dict) and key in inside else {}
        if isinstance(inside, dict):
            inside[str(value)[:9] if as_key else path[-1]] = value
    with suppress(ManifestError):
        to_config(decode(document), secret_dir=None)


@pytest.mark.parametrize(("character", "code"), [("\0", "0000"), ("\x07", "0007"), ("\ufffe", "FFFE")])
def test_a_character_that_yaml_does_not_allow_is_told_with_its_line(character: str, code: str) -> None:
    expected = [f"line 2: has the character U+{code}, which YAML does not allow; remove it"]
    assert faults(f"a: 1\nb: x{character}y\n") == expected


def test_a_number_beyond_64_bits_is_text_or_rounded_and_costs_nothing() -> None:
    assert parse_yaml(f"a: 0x{'f' * 4000}\nb: {'9' * 5000}\nc: 18446744073709551616\n") == {
        "a": f"0x{'f' * 4000}", "b": "9" * 5000, "c": 18446744073709552000,
    }  # fmt: skip
    (line,) = faults(f"a: 1\n? 0x{'f' * 4000}\n: 2\n")
    assert line.startswith("the document: the key '0xfff")
