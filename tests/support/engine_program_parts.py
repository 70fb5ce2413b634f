"""The words that random programs for several engines are made of.

Used by ``engine_programs``. ``<name>`` stands for the topic of that name.
"""

from __future__ import annotations

#: How each of them begins.
HEAD = """
from streamsapp import *

TEXT, LONG = Serdes.string(), Serdes.long()
LATE = 1_200_000


class Recent(Processor):
    def __init__(self, store):
        self.name = store

    def init(self, context):
        self.context, self.store = context, context.get_state_store(self.name)

    def process(self, record):
        kept = ((self.store.get(record.key) or "") + record.value)[-12:]
        self.store.put(record.key, kept)
        self.context.forward(record.with_value(kept))


class Ticking(Processor):
    def __init__(self, store):
        self.name = store

    def init(self, context):
        self.context, self.store = context, context.get_state_store(self.name)
        context.schedule(1_000, PunctuationType.STREAM_TIME, self.tick)

    def process(self, record):
        self.store.put(record.key, ((self.store.get(record.key) or "") + record.value)[-12:])

    def tick(self, at):
        with self.store.all() as entries:
            for key, value in entries:
                self.context.forward(Record(key, value, at))


def sound(value):
    if value.startswith("poison"):
        raise ValueError("it is poisonous")
    return value


def shown(at, value):
    return f"{at.key}@{at.start_ms}-{at.end_ms}", value


def topology():
    builder = StreamsBuilder()
    texts, longs, by_text = Produced(TEXT, TEXT), Produced(TEXT, LONG), Grouped(TEXT, TEXT)
    s0, s1 = (builder.stream(each, Consumed(TEXT, TEXT)) for each in ("<s0>", "<s1>"))
    t0, t1, d0 = (builder.table(topic, Consumed(TEXT, TEXT), Materialized(name, key_serde=TEXT, value_serde=TEXT))
                  for topic, name in (("<t0>", "t0"), ("<t1>", "t1"), ("<d0>", "d0")))
    v0 = builder.table("<v0>", Consumed(TEXT, TEXT), Materialized("v0", TEXT, TEXT, versioned=LATE))
    g0 = builder.global_table("<g0>", Consumed(TEXT, TEXT), Materialized("g0", key_serde=TEXT, value_serde=TEXT))
"""

#: Steps of a stream of texts that keep its keys; records that end windows survive them.
STEPS = (
    '.filter(lambda key, value: "end" in value or value[-1] in "02468x")',
    '.filter_not(lambda key, value: value.startswith("c"))',
    '.map_values(lambda value: value + "x")',
    ".map_values(lambda key, value: value + key[0])",
    ".flat_map_values(lambda value: [value, value[::-1]])",
    ".peek(lambda key, value: None)",
)
NEW_KEYS = (
    ".select_key(lambda key, value: value[0])",
    ".map(lambda key, value: (value[-1], key + value))",
    ".flat_map(lambda key, value: [(value[0], value), (key, value)])",
)
FILTERS = ('.filter(lambda key, value: value[-1] != "3")',)
TABLE_STEPS = ('.map_values(lambda value: value + "m")', *FILTERS)
LETTERS = "abcdefgh"
