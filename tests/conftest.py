"""Sets up every test: a home of its own, the tests that share a process, the long ones, and the tests that could not
run.

The hooks run in each process of tests alike: all of them must come to the same order.
"""

from __future__ import annotations

import gc
import logging
import shutil
import signal
from collections import Counter
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from isolated_home import move_in

_HOME = move_in()  # before anything looks for a folder of the user's

# A shell starts background programs with signals ignored, and their children inherit that: programs that tests
# interrupt would never receive the signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

if TYPE_CHECKING:
    from api_server import ApiServer

_HERE = Path(__file__).parent

#: Tests of these folders share slow-starting servers (a cluster, Spark's Java, Kafka Streams, servers of their own),
#: each group in one process: another process would start them once more. The groups begin first and in this order, the
#: longest at the head, since each is a chain that more workers do not shorten.
_TOGETHER = {
    "integration/spark": "spark",
    "cluster": "cluster",
    "soak/test_cluster_soak.py": "cluster",
    "oracle": "oracle",
    "integration/membership": "secured",
    "integration/kafka": "kafka",
    "integration/release": "release",
    "unit/native/test_memory.py": "sanitizers",
    "integration/operator/test_applications.py": "applications",
    "integration/operator": "operator",
    "integration/crd": "applications",
    "integration/chart": "chart",
    "integration/plugin": "plugin",
    "integration/runtime/test_three_brokers.py": "three-brokers",
    "integration/serdes": "registry",
}
_ORDER = tuple(dict.fromkeys(_TOGETHER.values()))

#: So many times as many seeds with ``--seed``.
_MORE_SEEDS = 5

# The time of an example says nothing on a machine that runs brokers beside it; a hang meets the timeout.
settings.register_profile("house", deadline=None, max_examples=50)
settings.register_profile("long", deadline=None, max_examples=300)
settings.load_profile("house")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", default="1/1", metavar="K/N", help="run the K-th of N parts of what is selected")
    parser.addoption("--seed", type=int, help="tests of random programs and faults take many more seeds, from here on")
    parser.addoption("--programs", type=int, help="so many seeds for each test of random programs")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """``@pytest.mark.seeds(n)`` runs a test with n seeds, always the same ones but where ``--seed`` asks for others."""
    marker = metafunc.definition.get_closest_marker("seeds")
    if marker is not None:
        count, start = marker.args[0], metafunc.config.getoption("seed")
        wanted = metafunc.config.getoption("programs") or count * (1 if start is None else _MORE_SEEDS)
        first = (start or 0) * 1000
        metafunc.parametrize("seed", range(first, first + wanted))


class _Groups(LoadScopeScheduling):  # type: ignore[misc]  # xdist's schedulers have no types
    """Gives a group of tests to one process. By the paths of tests, as xdist's own groups have no effect with the
    node ids of pytest 9.2."""

    def _split_scope(self, nodeid: str) -> str:
        return _group(_HERE.parent / nodeid.partition("::")[0]) or nodeid

    def remove_node(self, node: WorkerController) -> str | None:
        """Gives the rest of the tests of a process that died to others, and returns the test it died in. xdist's own
        also gives away finished tests: a worker that gets nothing to do never asks again, and the run hangs."""
        units = self.assigned_work.pop(node).items()
        left: list[tuple[str, str]] = [
            (scope, nodeid) for scope, unit in units for nodeid, done in unit.items() if not done
        ]
        if not left:
            return None
        (_, died_in), *others = left
        for scope, nodeid in others:
            self.workqueue.setdefault(scope, {})[nodeid] = False
        for each in self.nodes:
            self._reschedule(each)
        return died_in


class _FailuresAtOnce:
    """Reports a failure when it happens: a run that is broken off has reported it."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self._reporter = reporter

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._reporter.section(f"{report.nodeid}, {report.when}")
            self._reporter.write_line(report.longreprtext)


@pytest.hookimpl(trylast=True)  # the reporter is there
def pytest_configure(config: pytest.Config) -> None:
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if isinstance(reporter, pytest.TerminalReporter) and config.getoption("dist") != "no":
        config.pluginmanager.register(_FailuresAtOnce(reporter))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _Groups:
    """In spite of ``--dist``: tests of a group share what they started."""
    return _Groups(config, log)


@pytest.hookimpl(trylast=True)  # tests that -m and -k leave out are gone
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    part, parts = map(int, config.getoption("part").split("/"))
    left_out = [item for number, item in enumerate(items) if number % parts != part % parts]
    config.hook.pytest_deselected(items=left_out)
    chosen = [item for number, item in enumerate(items) if number % parts == part % parts]
    items[:] = sorted(chosen, key=lambda item: _place(_group(item.path)))


def _place(group: str | None) -> int:
    """The place of a group in the order: a group that is not a chain comes after the chains."""
    return _ORDER.index(group) if group in _ORDER else len(_ORDER)


@cache  # a file has hundreds of tests
def _group(file: Path) -> str | None:
    """Tests of one group run in one process: tests that share much, and the small ones of a file."""
    path = file.relative_to(_HERE)
    together = [name for folder, name in _TOGETHER.items() if path.is_relative_to(folder)]
    return together[0] if together else str(path) if path.is_relative_to("unit") else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escapes broken characters in the log of a test: processes of tests send each other UTF-8."""
    report = yield
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A line for each reason why tests were not run on this machine."""
    reasons = Counter(report.longrepr[2] for report in terminalreporter.stats.get("skipped", []))
    for reason, count in sorted(reasons.items()):
        tests = "1 test" if count == 1 else f"{count} tests"
        terminalreporter.write_line(f"not run here: {tests}: {reason.removeprefix('Skipped: ')}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Collects the objects that thousands of tests have left, while xdist waits for it: later xdist kills a process
    that has not ended within ten seconds. The collector looks through living objects only once, not again at the end
    of pytest and of Python."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    if _HOME is not None:
        shutil.rmtree(_HOME, ignore_errors=True)


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    """A program that a test runs in this process sets up the log, and writes to a stream that is closed after the
    test: each later message would be an error with a stack."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(params=["streamsapp", "librdkafka"])
def moving(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both clients that move records: the clients that the test makes are of this kind."""
    from data_paths import take_client  # late: few tests need clients of Kafka

    take_client(request.param, monkeypatch)
    return str(request.param)


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """The API server all tests share: never stop it; a test that wants to makes its own."""
    from api_server import ApiServer  # late: few tests need the Kubernetes client, and it takes half a second to import

    with ApiServer(tmp_path_factory.mktemp("api-server")) as running:
        yield running
