"""The repository that artifacts come from: Maven Central, or the mirror of the environment or of Maven's settings."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path

import pytest

from streamsapp.errors import UserInputError
from streamsapp.local.repository import VARIABLE, repository

CENTRAL = "https://repo.maven.apache.org/maven2"


@pytest.fixture(autouse=True)
def no_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def settings(folder: Path, content: str, namespace: str = "") -> Path:
    file = folder / "settings.xml"
    file.write_text(f"<settings{namespace}>{content}</settings>", encoding="utf-8")
    return file


def mirror(mirror_of: str, url: str = "https://mirror.example/maven/", name: str = "ours") -> str:
    return f"<mirror><id>{name}</id><url>{url}</url><mirrorOf>{mirror_of}</mirrorOf></mirror>"


def test_without_settings_it_is_maven_central(tmp_path: Path) -> None:
    found = repository(tmp_path / "none.xml")
    assert (found.url, found.named_by, found.proxies) == (CENTRAL, "", None)


@pytest.mark.parametrize("mirror_of", ["central", "*", "external:*", "other, central", "*,!other"])
@pytest.mark.parametrize("namespace", ["", ' xmlns="http://maven.apache.org/SETTINGS/1.2.0"'])
def test_a_mirror_of_central_in_mavens_settings_is_taken(tmp_path: Path, mirror_of: str, namespace: str) -> None:
    file = settings(tmp_path, f"<mirrors>{mirror(mirror_of)}</mirrors>", namespace)
    found = repository(file)
    assert (found.url, found.named_by, found.authorization) == ("https://mirror.example/maven", str(file), None)


@pytest.mark.parametrize("mirror_of", ["other", "*,!central", "external:http:*", ""])
def test_a_mirror_of_others_is_left_alone(tmp_path: Path, mirror_of: str) -> None:
    assert repository(settings(tmp_path, f"<mirrors>{mirror(mirror_of)}</mirrors>")).url == CENTRAL


def test_the_mirror_of_central_alone_wins_over_one_of_everything(tmp_path: Path) -> None:
    mirrors = mirror("*", "https://all.example") + mirror("central", "https://central.example")
    assert repository(settings(tmp_path, f"<mirrors>{mirrors}</mirrors>")).url == "https://central.example"


def test_credentials_of_the_mirrors_server_are_sent_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRROR_PASSWORD", "geheim")
    server = "<server><id>ours</id><username>anna</username><password>${env.MIRROR_PASSWORD}</password></server>"
    found = repository(settings(tmp_path, f"<mirrors>{mirror('*')}</mirrors><servers>{server}</servers>"))
    assert found.authorization is not None
    assert b64decode(found.authorization.removeprefix("Basic ")) == b"anna:geheim"
    assert found.authorization not in repr(found)


def test_a_password_that_maven_alone_can_read_is_refused_with_the_remedy(tmp_path: Path) -> None:
    server = "<server><id>ours</id><username>anna</username><password>{COQLCE6DU6GtcS5P=}</password></server>"
    with pytest.raises(UserInputError, match=f"server 'ours' is encrypted.*{VARIABLE}"):
        repository(settings(tmp_path, f"<mirrors>{mirror('*')}</mirrors><servers>{server}</servers>"))


def test_the_variable_wins_over_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "https://anna:a%40b@other.example:8443/maven2/")
    found = repository(settings(tmp_path, f"<mirrors>{mirror('*')}</mirrors>"))
    assert (found.url, found.named_by) == ("https://other.example:8443/maven2", VARIABLE)
    assert found.authorization is not None
    assert b64decode(found.authorization.removeprefix("Basic ")) == b"anna:a@b"


@pytest.mark.parametrize("address", ["mirror.example/maven", "ftp://mirror.example", "https://", "C:\\maven"])
def test_what_is_no_address_is_refused_with_its_place(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, address)
    with pytest.raises(UserInputError, match=f"{VARIABLE}: a repository has an address like https://host/path, got"):
        repository()


@pytest.mark.parametrize("content", [b"<settings><mirrors>", b"\xff\xfe", b""])
def test_settings_that_are_no_xml_are_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "settings.xml").write_bytes(content)
    with pytest.raises(UserInputError, match=f"settings.xml: Maven's settings cannot be read: .*{VARIABLE}"):
        repository(tmp_path / "settings.xml")


PROXY = (
    "<proxies><proxy><active>false</active><host>old.example</host></proxy><proxy><username>a</username>"
    "<password>b@c</password><host>proxy.example</host><port>3128</port><nonProxyHosts>*.inside|mirror.example"
    "</nonProxyHosts></proxy></proxies>"
)


def test_the_active_proxy_of_the_settings_is_used_but_for_the_hosts_that_need_none(tmp_path: Path) -> None:
    assert repository(settings(tmp_path, PROXY)).proxies == {"https": "http://a:b%40c@proxy.example:3128"}
    assert repository(settings(tmp_path, f"<mirrors>{mirror('*')}</mirrors>{PROXY}")).proxies == {}
