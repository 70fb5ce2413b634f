"""``report``: one file with everything but secrets, whichever way they could come into it."""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import stat
import tarfile
from pathlib import Path
from urllib.parse import quote

import pytest

from kubectl_parts import FakeCluster, Terminal, app_document, healthy_status
from streamsapp_operator.plugin import report
from streamsapp_operator.plugin.errors import PluginError
from streamsapp_operator.plugin.gathering import ReportPart
from streamsapp_operator.plugin.redaction import Redactor
from streamsapp_operator.plugin.style import Style

#: Of Secrets that the user may read: nothing about their form gives them away.
PASSWORD, ODD = "correct horse battery", 'qu"ote\\back/slash+x'
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAxyzxyzxyzxyzxyz\n-----END RSA PRIVATE KEY-----\n"
KNOWN = [PASSWORD, ODD, KEY, "SCRAM-SHA-512"]
ZONE = {"name": "ZONE", "value": "a"}
#: Nothing is known of these but how they look.
UNKNOWN = {
    "hunter2hunter2": "sasl.password=hunter2hunter2",
    "s3cr3tvalue": '{"ssl.key.password": "s3cr3tvalue", "n": 1}',
    "wJalrXUtnFEMI": "AWS_SECRET_ACCESS_KEY: wJalrXUtnFEMI",
    "AKIAIOSFODNN7EXAMPLE": "credentials of AKIAIOSFODNN7EXAMPLE were refused",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0abc.sig": "token was eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0abc.sig today",
    "pwdvalue1": "DB_PWD=pwdvalue1 is set",
    "passvalue2": "MQTT_PASS: passvalue2",
    "me:infovalue": "basic.auth.user.info=me:infovalue",
    "abcdef0123456789": "Authorization: Bearer abcdef0123456789",
    "me:pw12345": "GET https://me:pw12345@registry.example/subjects",
    "f00dfacef00dface": "PUT /key?X-Amz-Signature=f00dfacef00dface&x=1",
    "jaas-pass": 'sasl.jaas.config=org.apache.ScramLoginModule required username="u" password="jaas-pass";',
    "MIIunknownkey": "-----BEGIN PRIVATE KEY-----\\nMIIunknownkey\\n-----END PRIVATE KEY-----",
}


def bundle(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        files = [(each.name, archive.extractfile(each)) for each in archive.getmembers()]
        return {name.partition("/")[2]: file.read().decode() for name, file in files if file is not None}


def cluster() -> FakeCluster:
    app = app_document(healthy_status())
    app["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": PASSWORD, "note": PASSWORD}
    container = {
        "name": "runtime",
        "env": [{"name": "DB_PASSWORD", "value": "plainly"}, {"name": "ZONE", "value": "a"}],
    }
    app["spec"]["podTemplate"] = {"spec": {"containers": [container], "automountServiceAccountToken": False}}
    app["spec"]["kafka"] = {"secretRef": {"name": "kafka-credentials"}, "properties": {"ssl.key.password": "propval"}}
    app["spec"]["code"] = {"files": {"a.py": "KEY = 'codesecret'"}}
    encoded = base64.b64encode(PASSWORD.encode()).decode()
    log = "\n".join([*UNKNOWN.values(), f"said {PASSWORD}, {json.dumps(ODD)}, {encoded}, {quote(ODD, safe='')}",
                     f"mechanism SCRAM-SHA-512 {KEY}", "an ordinary line"])  # fmt: skip
    return FakeCluster(
        [app],
        secret_values=KNOWN,
        parts=[
            ReportPart("streamsapp.json", app),
            ReportPart("wordcount-0/status.json", json.dumps({"note": f"{PASSWORD} here", "tasks": []})),
            ReportPart("wordcount-0/metrics.txt", 'kafka_stream_task_process_total{task_id="0_0"} 7'),
            ReportPart("wordcount-0/runtime.log", log),
            ReportPart("operator/pods.json", missing=f"you may not list pods with {PASSWORD}"),
        ],
    )


def run(path: Path, made: FakeCluster, output: str = "text") -> str:
    terminal = Terminal(made, Style())
    options = argparse.Namespace(name="wordcount", file=path, tail=10, output=output)
    assert report.run(options, terminal.session) == 0
    return terminal.text


def test_no_secret_is_in_the_bundle_in_any_form(tmp_path: Path) -> None:
    path = tmp_path / "report.tar.gz"
    told = run(path, cluster())
    whole = gzip.decompress(path.read_bytes()).decode(errors="replace") + told
    encoded = base64.b64encode(PASSWORD.encode()).decode().rstrip("=")
    hidden = [PASSWORD, ODD, json.dumps(ODD)[1:-1], quote(ODD, safe=""), encoded, "MIIEowIBAAKCAQEA", *UNKNOWN]
    hidden += ["plainly", "propval", "codesecret", "pw12345"]
    assert [each for each in hidden if each in whole] == []


def test_what_is_no_secret_is_there_and_documents_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "report.tar.gz"
    run(path, cluster())
    files = bundle(path)
    app = json.loads(files["streamsapp.json"])
    assert app["spec"]["kafka"]["secretRef"] == {"name": "kafka-credentials"}
    assert app["spec"]["podTemplate"]["spec"]["automountServiceAccountToken"] is False
    assert ZONE in app["spec"]["podTemplate"]["spec"]["containers"][0]["env"]
    assert app["status"]["phase"] == "Running"
    assert json.loads(files["wordcount-0/status.json"])["tasks"] == []
    assert files["wordcount-0/metrics.txt"] == 'kafka_stream_task_process_total{task_id="0_0"} 7'
    assert "an ordinary line" in files["wordcount-0/runtime.log"]
    assert "mechanism SCRAM-SHA-512" in files["wordcount-0/runtime.log"]
    assert files["missing.txt"].startswith("operator/pods.json: you may not list pods")


def test_the_file_is_its_users_alone_and_replaces_none(tmp_path: Path) -> None:
    path = tmp_path / "report.tar.gz"
    assert json.loads(run(path, cluster(), output="json"))["file"] == str(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(PluginError, match="cannot be written"):
        run(path, cluster())


def test_its_size_has_a_bound_and_a_log_keeps_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "_MOST_OF_ONE", 1000)
    monkeypatch.setattr(report, "_MOST", 2500)
    long = f"password=first {'x' * 5000} the end"
    parts = [ReportPart(f"wordcount-{number}/runtime.log", long) for number in range(5)]
    parts.insert(1, ReportPart("events.json", ["y" * 5000]))
    path = tmp_path / "report.tar.gz"
    run(path, FakeCluster([app_document(healthy_status())], parts=parts))

    files = bundle(path)
    assert list(files) == ["wordcount-0/runtime.log", "events.json", "wordcount-1/runtime.log", "missing.txt"]
    assert all(len(text) < 1100 for text in files.values())
    assert files["wordcount-0/runtime.log"].endswith("the end")
    assert files["events.json"].startswith('[\n "yyy')
    assert files["missing.txt"].startswith("wordcount-2/runtime.log and all after it: the report has 2.4 KiB")


def test_a_part_of_a_longer_secret_hides_no_rest_of_it() -> None:
    assert Redactor(["abcd", "abcdefgh"]).text("abcdefgh abcd") == "<redacted> <redacted>"


def test_short_values_and_words_of_kafka_stay() -> None:
    text = "SASL_SSL with PLAIN, 42 and on"
    assert Redactor(["42", "on", "PLAIN", "SASL_SSL"]).text(text) == text
