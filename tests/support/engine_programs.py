"""Random programs whose outcome does not depend on where their inputs are cut into batches: any engine must agree.

Called by the tests that run a program on several engines. Which of two topics, or of two partitions of a repartition
topic, is read first is not said anywhere; so each result is compared as far as it does not depend on that (``Same``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from random import Random

from engine_program_parts import FILTERS, HEAD, LETTERS, NEW_KEYS, STEPS, TABLE_STEPS

#: Key, value and time.
Row = tuple[str, str | None, int]

PARTITIONS = 2
#: A time after that of every other record, in milliseconds since the first one. Kafka refuses times of the future.
_END_MS = 3_000_000

#: More than there is between any two records before the last ones.
_LONGEST_MS = 40_000


class Same(Enum):
    """How far the results of two engines, or the entries of a store, agree."""

    #: Those of each key in their order, with their times.
    IN_ORDER = 1
    #: All of them, with their times.
    ALL = 2
    #: The last value of each key.
    LAST = 3


@dataclass(frozen=True)
class EngineProgram:
    """A module with a function ``topology``; ``<name>`` in it stands for the topic of that name."""

    code: str
    #: In these orders.
    inputs: dict[str, list[Row]]
    #: Inputs that are complete before the application starts.
    first: frozenset[str]
    results: dict[str, Same]
    stores: dict[str, Same]
    #: Inputs whose offsets are committed.
    read: frozenset[str]
    #: Names of inputs that get a last record in each partition, which closes windows, once all others are processed.
    ended: frozenset[str]
    end_ms: int


@dataclass
class _Stream:
    """A stream of texts, by the expression that makes it."""

    code: str
    #: True if the records of a key, and of a partition, have one order.
    ordered: bool = True
    #: True if its topic is not partitioned by its keys.
    rekeyed: bool = False

    def then(self, code: str) -> _Stream:
        return _Stream(f"{self.code}{code}", self.ordered, self.rekeyed)


@dataclass
class _Generator:
    random: Random
    lines: list[str] = field(default_factory=list)
    results: dict[str, Same] = field(default_factory=dict)
    stores: dict[str, Same] = field(default_factory=dict)
    #: The streams that something is made of.
    sources: set[str] = field(default_factory=set)
    _names: int = 0

    def new(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def to(self, code: str, same: Same, produced: str = "texts") -> None:
        topic = self.new("out")
        self.results[topic] = same
        self.lines.append(f'{code}.to("<{topic}>", {produced})')

    def kept(self, same: Same, value: str = "TEXT", options: str = "") -> str:
        """How a table is kept, under a name of its own."""
        name = self.new("store")
        engine = ', store="memory"' if self.chance(0.2) else ""
        if not engine:  # nothing of the others is on a disk
            self.stores[name] = same
        return f'Materialized("{name}", key_serde=TEXT, value_serde={value}{engine}{options})'

    # ---- streams -----------------------------------------------------------------------------------------------

    def stream(self, *, source: str = "", new_keys: float = 0.3) -> _Stream:
        """One of the sources, and what becomes of it."""
        source = source or self.random.choice(["s0", "s1"])
        self.sources.add(source)
        made = _Stream(source)
        for _ in range(self.random.randint(0, 3)):
            made = made.then(self.random.choice(STEPS))
        if self.chance(0.15):
            made = made.then(".map_values(sound)")
        if self.chance(0.2):
            made = self.recent(made)
        if self.chance(0.2):
            made = made.then(f'.repartition(Repartitioned(TEXT, TEXT, name="{self.new("again")}"))')
        if self.chance(new_keys):
            made = _Stream(f"{made.code}{self.random.choice(NEW_KEYS)}", ordered=False, rekeyed=True)
        if self.chance(0.2):
            made = self.greeted(made)
        if self.chance(0.15):
            other = self.stream(source="s1" if made.code.startswith("s0") else "s0")
            rekeyed = made.rekeyed or other.rekeyed
            made = _Stream(f"{made.code}.merge({other.code})", ordered=False, rekeyed=rekeyed)
        return made

    def recent(self, stream: _Stream) -> _Stream:
        name = self.new("recent")
        self.stores[name] = Same.IN_ORDER
        builder = f'Stores.key_value_store_builder(Stores.persistent_key_value_store("{name}"), TEXT, TEXT)'
        self.lines.append(f"builder.add_state_store({builder})")
        return stream.then(f'.process(lambda: Recent("{name}"), "{name}")')

    def greeted(self, stream: _Stream) -> _Stream:
        left = self.random.choice(["join", "left_join"])
        if self.chance(0.5):
            return stream.then(f'.{left}(g0, lambda key, value: value[0], lambda value, name: f"{{value}}/{{name}}")')
        joined = "Joined(TEXT, TEXT, TEXT)"
        return stream.then(f'.{left}(d0, lambda value, name: f"{{value}}/{{name}}", {joined})')

    # ---- what is made of them ----------------------------------------------------------------------------------

    def plain(self) -> None:
        stream = self.stream()
        self.to(stream.code, Same.IN_ORDER if stream.ordered else Same.ALL)

    def grouped(self, new_keys: float = 0.3, by: str = "by_text") -> tuple[str, bool]:
        stream = self.stream(new_keys=new_keys)
        if self.chance(new_keys):
            return f"{stream.code}.group_by(lambda key, value: value[0], {by})", False
        return f"{stream.code}.group_by_key({by})", stream.ordered

    def counted(self) -> None:
        code, ordered = self.grouped()
        same = Same.IN_ORDER if ordered else Same.LAST
        commit = self.chance(0.2)
        options = ', emit="commit"' if commit else ""
        told = Same.LAST if commit else same
        # Of records without one order it is not said which of them move the time of ``suppress``.
        match self.random.choice(["count", "reduce", "aggregate", *(["late"] if ordered else [])]):
            case "count":
                self.to(f"{code}.count({self.kept(same, 'LONG', options)}).to_stream()", told, "longs")
            case "reduce":
                kept = self.kept(same, "TEXT", options)
                self.to(f"{code}.reduce(lambda one, other: max(one, other), {kept}).to_stream()", told)
            case "aggregate":
                kept = self.kept(same, "LONG", options)
                self.to(
                    f"{code}.aggregate(lambda: 0, lambda k, v, sum: sum + len(v), {kept}).to_stream()", told, "longs"
                )
            case _:
                limit = "Suppressed.until_time_limit(2_000, Suppressed.BufferConfig.unbounded())"
                self.to(f"{code}.count({self.kept(same, 'LONG')}).suppress({limit}).to_stream()", same, "longs")

    def windowed(self) -> None:
        code, ordered = self.grouped()
        grace = self.random.choice(["0", "300", "2_000"]) if ordered else "LATE"
        kinds = ["TimeWindows.of(1_000, {})", "TimeWindows.of(2_000, {}).advance_by(500)", "SessionWindows.of(400, {})"]
        kind = self.random.choice([*kinds, *(["SlidingWindows.of(700, {})"] if ordered else [])]).format(grace)
        same = Same.IN_ORDER if ordered else Same.LAST
        closing = ordered and self.chance(0.4)
        strategy = ".emit_strategy(EmitStrategy.on_window_close())" if closing and self.chance(0.5) else ""
        commit = not closing and self.chance(0.2)
        options = ', emit="commit"' if commit else ""
        if self.chance(0.7):
            made, produced = f"count({self.kept(same, 'LONG', options)})", "longs"
        else:
            made, produced = f"reduce(lambda one, other: max(one, other), {self.kept(same, 'TEXT', options)})", "texts"
        made = f"{code}.windowed_by({kind}){strategy}.{made}"
        if closing and not strategy:
            made += ".suppress(Suppressed.until_window_closes(Suppressed.BufferConfig.unbounded()))"
        self.to(f"{made}.to_stream().map(shown)", Same.LAST if commit else same, produced)

    def combined(self) -> None:
        code = f"{self.stream().code}.group_by(lambda key, value: value[-1], Grouped(TEXT, TEXT, combine=True))"
        if self.chance(0.5):
            self.to(f"{code}.count({self.kept(Same.LAST, 'LONG')}).to_stream()", Same.LAST, "longs")
        else:
            kept = self.kept(Same.LAST)
            self.to(f"{code}.reduce(lambda one, other: max(one, other), {kept}).to_stream()", Same.LAST)

    def cogrouped(self) -> None:
        one, other = (self.grouped(by=f'Grouped(TEXT, TEXT, name="{self.new("by")}")')[0] for _ in range(2))
        code = f"{one}.cogroup(lambda k, v, sum: sum + len(v)).cogroup({other}, lambda k, v, sum: sum + 100)"
        windows = self.chance(0.4)
        if windows:
            code += ".windowed_by(TimeWindows.of(1_000, LATE))"
        code += f".aggregate(lambda: 0, {self.kept(Same.LAST, 'LONG')}).to_stream()"
        self.to(f"{code}{'.map(shown)' if windows else ''}", Same.LAST, "longs")

    def branched(self) -> None:
        stream, name = self.stream(), self.new("split")
        one, other = f'"{name}-a"', f'"{name}-b"'
        early = '.branch(lambda key, value: value[0] < "d", "a")'
        self.lines.append(f'{name} = {stream.code}.split("{name}-"){early}.default_branch("b")')
        same = Same.IN_ORDER if stream.ordered else Same.ALL
        self.to(f"{name}[{one}]", same)
        counted = f"{name}[{other}].group_by_key(by_text).count({self.kept(Same.LAST, 'LONG')}).to_stream()"
        self.to(counted, Same.LAST, "longs")

    def routed(self) -> None:
        """The topic is chosen for each record."""
        stream, one, other = self.stream(), self.new("out"), self.new("out")
        self.results |= dict.fromkeys((one, other), Same.IN_ORDER if stream.ordered else Same.ALL)
        self.lines.append(
            f'{stream.code}.to(lambda key, value, at: "<{one}>" if value[0] < "d" else "<{other}>", texts)'
        )

    def as_of(self) -> None:
        """Joined with the version of the table that was there at the record's time, however late it comes."""
        stream, held = self.stream(), self.chance(0.5)
        joined = f"Joined(TEXT, TEXT, TEXT{', grace=LATE' if held else ''})"
        join = self.random.choice(["join", "left_join"])
        self.to(
            f'{stream.code}.{join}(v0, lambda value, name: f"{{value}}/{{name}}", {joined})',
            Same.IN_ORDER if stream.ordered and not held else Same.ALL,
        )

    def ticking(self) -> None:
        """A processor with a stream of its own that sends what it keeps of each key, whenever time has gone on by a
        second: it is the time of all that its task reads."""
        name = self.new("ticking")
        self.sources.add("p0")
        self.stores[name] = Same.IN_ORDER
        builder = f'Stores.key_value_store_builder(Stores.persistent_key_value_store("{name}"), TEXT, TEXT)'
        self.lines.append(f"builder.add_state_store({builder})")
        stream = 'builder.stream("<p0>", Consumed(TEXT, TEXT))'
        self.to(f'{stream}.process(lambda: Ticking("{name}"), "{name}")', Same.LAST)

    def streams_joined(self) -> None:
        one, other = self.stream(source="s0"), self.stream(source="s1")
        join = self.random.choice(["join", "join", "left_join", "outer_join"])
        # A record whose window stream time has passed is sent without a partner at once, though one may come: so these
        # windows are longer than the inputs.
        length = self.random.choice([100, 400, 900]) if join == "join" else _LONGEST_MS
        near = f"JoinWindows.of({length}, grace=LATE)"
        joined = f'StreamJoined(TEXT, TEXT, TEXT, store_name="{self.new("near")}")'
        joiner = 'lambda one, other: f"{one}+{other}"'
        self.to(f"{one.code}.{join}({other.code}, {joiner}, {near}, {joined})", Same.ALL)

    # ---- tables ------------------------------------------------------------------------------------------------

    def table(self, name: str, steps: tuple[str, ...] = TABLE_STEPS) -> str:
        return name + "".join(self.random.choice(steps) for _ in range(self.random.randint(0, 2)))

    def tables_joined(self) -> None:
        one, other = self.table("t0"), self.table("t1")
        if self.chance(0.5):
            join = self.random.choice(["join", "left_join", "outer_join"])
            made = f'{one}.{join}({other}, lambda one, other: f"{{one}}-{{other}}"'
        else:
            join = self.random.choice(["join", "left_join"])
            # Both tables' values are in topics then, and a filter keeps their serdes.
            one, other = self.table("t0", FILTERS), self.table("t1", FILTERS)
            made = f'{one}.{join}({other}, lambda value: value[0], lambda one, other: f"{{one}}-{{other}}"'
        made += f", materialized={self.kept(Same.LAST)})"
        if self.chance(0.4):
            self.table_grouped(made)
        else:
            self.to(f"{made}.to_stream()", Same.LAST)

    def counts_joined(self) -> None:
        """A table that is counted, and a table that is read."""
        code, _ = self.grouped()
        join = self.random.choice(["join", "left_join", "outer_join"])
        joiner = 'lambda count, row: f"{count}:{row}"'
        counted = f"{code}.count({self.kept(Same.LAST, 'LONG')})"
        made = f"{counted}.{join}({self.table('t1')}, {joiner}, materialized={self.kept(Same.LAST)})"
        self.to(f"{made}.to_stream()", Same.LAST)

    def table_grouped(self, table: str = "") -> None:
        table = table or self.table(self.random.choice(["t0", "t1"]))
        code = f"{table}.group_by(lambda key, value: (value[0], value), by_text)"
        if self.chance(0.5):
            made = f"{code}.count({self.kept(Same.LAST, 'LONG')})"
        else:
            more, less = "lambda k, v, sum: sum + len(v)", "lambda k, v, sum: sum - len(v)"
            made = f"{code}.aggregate(lambda: 0, {more}, {less}, {self.kept(Same.LAST, 'LONG')})"
        self.to(f"{made}.to_stream()", Same.LAST, "longs")


def engine_program(seed: int, start_ms: int, records: int = 240, pieces: int = 5) -> EngineProgram:
    """The same seed, the same program. ``start_ms`` is the time of the first record, ``records`` how many each stream
    has, ``pieces`` how many things are made of them."""
    random = Random(seed)
    made = _Generator(random, stores=dict.fromkeys(("t0", "t1", "d0"), Same.IN_ORDER))
    all_pieces = [
        made.plain,
        made.counted,
        made.windowed,
        made.streams_joined,
        made.tables_joined,
        made.table_grouped,
        made.combined,
        made.cogrouped,
        made.branched,
        made.routed,
        made.as_of,
        made.ticking,
        made.counts_joined,
    ]
    for piece in random.sample(all_pieces, pieces):
        piece()
    body = "".join(f"    {line}\n" for line in made.lines)
    rows = _rows(random, start_ms, records)
    if "p0" not in made.sources:  # a topic that no source reads is none of the program's
        del rows["p0"]
    return EngineProgram(
        f"{HEAD}{body}    return builder.build()\n",
        rows,
        frozenset({"d0", "g0", "v0"}),
        made.results,
        made.stores,
        frozenset({"t0", "t1", "d0", "v0", *made.sources}),
        frozenset(made.sources),
        start_ms + _END_MS,
    )


def _rows(random: Random, start_ms: int, count: int) -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = {}
    for stream in ("s0", "s1", "p0"):
        rows[stream] = []
        for number in range(count):
            value = "poison" if random.random() < 0.02 else f"{random.choice(LETTERS)}{random.randrange(40)}"
            at = start_ms + 100 * number + random.choice([0, 0, 7, 100, -90, -700, -2_500 if number > 30 else 0])
            rows[stream].append((f"{random.choice(LETTERS)}{random.randrange(2)}", value, max(start_ms, at)))
    keys_of = {"t0": [f"k{number}" for number in range(12)], "t1": [*LETTERS, "k1", "k2", "k3"]}
    for table, keys in keys_of.items():
        values = [None, *(f"{letter}{number}" for letter in LETTERS[:5] for number in range(4))]
        rows[table] = [
            (random.choice(keys), random.choice(values), start_ms + 130 * each) for each in range(count // 2)
        ]
    for table, keys in (("d0", [f"{letter}0" for letter in LETTERS]), ("g0", list(LETTERS[:6]))):
        values = [None, "one", "two", "three"]
        rows[table] = [(random.choice(keys), random.choice(values), start_ms - 10_000 + each) for each in range(30)]
    keys = [f"{letter}{number}" for letter in LETTERS for number in range(2)] + [*LETTERS]
    # At times that no stream has: which of two records of one time comes first is not said.
    rows["v0"] = [(random.choice(keys), random.choice(values), start_ms + 100 * each + 43) for each in range(count)]
    return rows
