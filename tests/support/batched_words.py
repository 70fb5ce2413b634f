"""An application that counts words in batches, and its processes, without an engine: the test orders.

Called by the tests of batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from instances import Instances, eventually, produce
from kafka_cluster import Kafka
from streamsapp import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder, Topology
from streamsapp.clock import SystemClock
from streamsapp.config import RemoteStateConfig, client_properties
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.runtime.application_layout import ApplicationLayout
from streamsapp.runtime.application_topics import ApplicationTopics
from streamsapp.runtime.micro_batches.batches import MicroBatches
from streamsapp.runtime.micro_batches.model import LaneOrder
from streamsapp.runtime.micro_batches.planning import MicroBatchPlanner, MicroBatchSize
from streamsapp.runtime.micro_batches.process import LaneProcess

TEXT, LONG = Serdes.string(), Serdes.long()


class Application:
    """Words are counted; ``seen`` is called with each of them."""

    def __init__(self, instances: Instances, seen: Callable[[str], object] = str) -> None:
        self.instances = instances
        self.kafka: Kafka = instances.kafka
        self.words = self.kafka.create_topic("words", 2)
        self.counts = self.kafka.create_topic("counts", 2)
        self.seen = seen
        self.config = replace(instances.config(), processing_guarantee="exactly_once")
        self.processes: list[LaneProcess] = []
        self.admin = TopicAdmin(client_properties.admin(self.config))
        self.produced = 0
        #: Of a batch; ``None`` if there is no limit.
        self.size: MicroBatchSize | None = None

    def topology(self) -> Topology:
        builder = StreamsBuilder()
        words = builder.stream(self.words, Consumed(TEXT, TEXT)).peek(lambda _, word: self.seen(word))
        grouped = words.group_by(lambda _, word: word, Grouped(key_serde=TEXT, value_serde=TEXT))
        counted = grouped.count(Materialized("counts", key_serde=TEXT, value_serde=LONG))
        counted.to_stream().to(self.counts, Produced(key_serde=TEXT, value_serde=LONG))
        return builder.build()

    def produce(self, count: int, partition: int = -1) -> None:
        since = self.produced
        self.produced += count
        words = ((b"word%d" % (n % 7), 1_000 + n) for n in range(since, self.produced))
        records = [(word, word, timestamp) for word, timestamp in words]
        produce(self.kafka, self.words, records, partition=partition)

    def layout(self) -> ApplicationLayout:
        return ApplicationTopics(self.topology(), self.config, self.admin, SystemClock()).look_up()

    def process(self) -> LaneProcess:
        """A process with an empty disk."""
        name = f"process-{len(self.processes)}"
        config = replace(self.config, state_dir=self.instances.directory / name, client_id=name)
        process = LaneProcess(self.topology(), config, self.layout())
        self.processes.append(process)
        return process

    def close(self) -> None:
        for process in self.processes:
            process.close()
        self.admin.close()

    def batches(self, lanes: int = 1) -> MicroBatches:
        """Returns the batches that are to be done now."""
        layout = self.layout()
        planner = MicroBatchPlanner({task_id: plan.inputs for task_id, plan in layout.plans.items()}, lanes, self.size)
        return MicroBatches(layout, self.config, self.admin, SystemClock(), planner, catches_up=True)

    def order(self) -> LaneOrder:
        """The next batch of its one lane, which is not empty."""
        (order,) = self.batches().next()
        return order

    def catch_up(self, *processes: LaneProcess, lanes: int = 1) -> int:
        """Run batches until there is nothing left, each process in turn; how many that were."""
        batches, count = self.batches(lanes), 0

        def caught_up() -> bool:
            nonlocal count
            for order in batches.next():
                batches.report(processes[count % len(processes)].run(order))
                count += 1
            return batches.caught_up

        eventually(caught_up, "the end")
        return count

    def open_orders(self, lanes: int = 1) -> tuple[LaneOrder, ...]:
        """Orders of all tasks, in which a process reads on by itself."""
        layout = self.layout()
        inputs = {task_id: plan.inputs for task_id, plan in layout.plans.items()}
        planner = MicroBatchPlanner(inputs, lanes, self.size, opens=True)
        return MicroBatches(layout, self.config, self.admin, SystemClock(), planner, catches_up=False).next()

    def check(self) -> None:
        """Every word has been counted exactly once, in the order of its records."""
        # A commit is answered before the broker has written its markers to every partition.
        eventually(lambda: len(self.kafka.read(self.counts)) >= self.produced, "results of the last transaction")
        counted: dict[bytes, list[int]] = {}
        for message in self.kafka.read(self.counts):
            counted.setdefault(message.key() or b"", []).append(int.from_bytes(message.value() or b"", "big"))
        expected = Counter(b"word%d" % (number % 7) for number in range(self.produced))
        assert counted == {word: list(range(1, count + 1)) for word, count in expected.items()}


def with_snapshots(app: Application) -> LaneProcess:
    """A process of an application whose tasks have no disk and no snapshot yet, with words counted already."""
    folder = app.instances.directory / "objects"
    app.config = replace(app.config, remote_state=RemoteStateConfig(url=folder.as_uri(), snapshot_interval=3600))
    app.produce(60)
    process = app.process()
    app.catch_up(process)
    return process


def grouped(app: Application) -> Topology:
    """Words are keys already."""
    builder = StreamsBuilder()
    words = builder.stream(app.words, Consumed(TEXT, TEXT))
    counted = words.group_by_key().count(Materialized("counts", key_serde=TEXT, value_serde=LONG))
    counted.to_stream().to(app.counts, Produced(key_serde=TEXT, value_serde=LONG))
    return builder.build()


@contextmanager
def applications(instances: Instances) -> Iterator[Callable[..., Application]]:
    """Makes applications, as ``Application`` does; their processes are closed at the end."""
    made: list[Application] = []

    def make(seen: Callable[[str], object] = str) -> Application:
        made.append(Application(instances, seen))
        return made[-1]

    yield make
    for each in made:
        each.close()
