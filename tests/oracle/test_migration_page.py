"""The left column of the page about Kafka Streams is Java: each row compiles, and builds the same topology as ours."""

from __future__ import annotations

import re
import subprocess

import pytest

from migration_rows import CONFIGURATION, NAMES, PROCESSOR, RUNNING, TEST, TOPOLOGIES, Row, prelude, rows
from oracle import class_path
from streamsapp.local.java import find_java

pytestmark = pytest.mark.long

_IMPORTS = """
import static org.apache.kafka.streams.StoreQueryParameters.fromNameAndType;
import java.time.*; import java.util.*; import java.util.regex.Pattern;
import org.apache.kafka.common.serialization.*; import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.*; import org.apache.kafka.streams.errors.*;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.*; import org.apache.kafka.streams.processor.*;
import org.apache.kafka.streams.processor.api.ProcessorContext; import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.*;
"""

#: The name that a description has for a function without one.
_LAMBDA = re.compile(r"(?<=extractor class: ).*lambda.*", re.IGNORECASE)


def _statement(row: Row) -> str:
    return f"        {row.java};  // line {row.line}\n"


def program(topologies: list[Row]) -> str:
    """A program of all rows, which prints the description of each topology behind its line."""
    builders = "".join(
        f"    static void row{row.line}() {{\n{prelude('java')}\n{_statement(row)}"
        f'        System.out.println("# {row.line}\\n" + builder.build().describe());\n    }}\n'
        for row in topologies
    )
    calls = "".join(f"        row{row.line}();\n" for row in topologies)
    settings = "".join(f"        props.put({row.java});  // line {row.line}\n" for row in rows(CONFIGURATION))
    return f"""{_IMPORTS}
public class Rows {{
{builders}
    static void processor(ProcessorContext<String, String> context, Record<String, String> record,
            KeyValueStore<String, Long> store, WindowStore<String, Long> windows) {{
        var minute = Duration.ofMinutes(1);
{"".join(map(_statement, rows(PROCESSOR)))}    }}
    static void running(Topology topology, Properties props) {{
{"".join(map(_statement, rows(RUNNING)))}    }}
    static void test(Topology topology, Properties props) {{
        var minute = Duration.ofMinutes(1);
{"".join(map(_statement, rows(TEST)))}    }}
    public static void main(String[] arguments) {{
        var props = new Properties();
{settings}{calls}    }}
}}
"""


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """The descriptions that Kafka Streams gives of the rows' topologies, by line."""
    folder = tmp_path_factory.mktemp("rows")
    source = folder / "Rows.java"
    source.write_text(program([row for table in TOPOLOGIES for row in rows(table)]), "utf-8")
    # The oracle's own classes are left out: one is called as one of Kafka Streams.
    java, (_, _, path) = find_java(), class_path().partition(":")
    _run([str(java.with_name("javac")), "-nowarn", "-cp", path, "-d", str(folder), str(source)])
    said = _run([str(java), "-cp", f"{folder}:{path}", "Rows"])
    parts = [part.partition("\n") for part in said.split("# ")[1:]]
    return {int(line): text.strip() for line, _, text in parts}


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("row", [row for table in TOPOLOGIES for row in rows(table)], ids=lambda row: row.python)
def test_both_sides_of_a_row_build_the_same_topology(described: dict[int, str], row: Row) -> None:
    names = dict(NAMES)
    exec(prelude("python"), names)  # noqa: S102 - our own page
    eval(row.python, names)  # noqa: S307 - our own page
    ours, theirs = str(names["builder"].build().describe()).strip(), described[row.line]
    assert _LAMBDA.sub("", ours) == _LAMBDA.sub("", theirs)
