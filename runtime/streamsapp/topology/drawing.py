"""Draws a described topology as SVG: topics, nodes and stores in rows, each below what it gets its records from. Pure.

Called by ``TopologyDescription.to_svg``, for notebooks. It needs no library and no font of its own, takes the colour of
the text around it, and escapes every name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from streamsapp.topology.description import DescribedGroup, DescribedNode

#: The height of a box, and the gaps around it, in pixels.
_HEIGHT, _ACROSS, _DOWN, _PADDING = 30, 24, 34, 12
#: The width of a character at 12 pixels, as wide fonts have it.
_CHARACTER = 7.4

#: The kind of an item, and its name: a topic and a store may be named alike.
_Key = tuple[str, str]


class _Edge(NamedTuple):
    start: _Key
    end: _Key
    #: Records flow along it; a store is read and written.
    flows: bool = True


@dataclass
class _Graph:
    #: The names of all items in the order in which they are met.
    items: dict[_Key, None] = field(default_factory=dict)
    edges: dict[_Edge, None] = field(default_factory=dict)

    def add(self, node: DescribedNode) -> None:
        own = (node.kind, node.name)
        self.items[own] = None
        for topic in (*node.topics, *filter(None, (node.pattern, node.extractor))):
            other = ("topic", topic)
            self._connect(*((other, own) if node.kind == "source" else (own, other)))
        for store in node.stores:
            self._connect(own, ("store", store), flows=False)

    def connect_nodes(self, nodes: Sequence[DescribedNode]) -> None:
        kinds = {node.name: node.kind for node in nodes}
        for node in nodes:
            for successor in node.successors:
                self._connect((node.kind, node.name), (kinds[successor], successor))

    def _connect(self, start: _Key, end: _Key, *, flows: bool = True) -> None:
        self.items |= {start: None, end: None}
        self.edges[_Edge(start, end, flows)] = None


class _Box(NamedTuple):
    x: float
    y: float
    width: float


def draw(groups: Iterable[DescribedGroup]) -> str:
    """Returns the SVG of a topology."""
    graph = _Graph()
    for group in groups:
        for node in group.nodes:
            graph.add(node)
        graph.connect_nodes(group.nodes)
    boxes = _placed(_rows(graph), graph)
    width = max((box.x + box.width for box in boxes.values()), default=0) + _PADDING
    height = max((box.y + _HEIGHT for box in boxes.values()), default=0) + _PADDING
    parts = [_line(edge, boxes) for edge in graph.edges] + [_shape(item, boxes[item]) for item in graph.items]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" role="img" '
        'aria-label="topology" fill="none" stroke="currentColor" font-family="sans-serif" font-size="12">'
        '<defs><marker id="streamsapp-arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0L8 4L0 8z" fill="currentColor" stroke="none"/></marker></defs>'
        f"{''.join(parts)}</svg>"
    )


def _rows(graph: _Graph) -> list[list[_Key]]:
    """Each item below all that lead to it; where items lead to each other in a circle, the first met is the upper."""
    before: defaultdict[_Key, set[_Key]] = defaultdict(set)
    for edge in graph.edges:
        before[edge.end].add(edge.start)
    row_of: dict[_Key, int] = {}
    waiting = dict(graph.items)
    while waiting:
        ready = [item for item in waiting if before[item] <= row_of.keys()] or [next(iter(waiting))]
        for item in ready:
            row_of[item] = 1 + max((row_of[other] for other in before[item] if other in row_of), default=-1)
        for item in ready:
            del waiting[item]
    rows: list[list[_Key]] = [[] for _ in range(1 + max(row_of.values(), default=-1))]
    for item in graph.items:
        rows[row_of[item]].append(item)
    return rows


def _placed(rows: Sequence[Sequence[_Key]], graph: _Graph) -> dict[_Key, _Box]:
    """Row by row, in the order of what leads to the items; every row is in the middle of the widest."""
    widths = {item: len(item[1]) * _CHARACTER + 2 * _PADDING for row in rows for item in row}
    spans = [sum(widths[item] + _ACROSS for item in row) - _ACROSS for row in rows]
    before: defaultdict[_Key, list[_Key]] = defaultdict(list)
    for edge in graph.edges:
        before[edge.end].append(edge.start)
    boxes: dict[_Key, _Box] = {}
    for number, row in enumerate(rows):
        x = _PADDING + (max(spans) - spans[number]) / 2
        for item in sorted(row, key=lambda each: _middle(before[each], boxes)):
            boxes[item] = _Box(x, _PADDING + number * (_HEIGHT + _DOWN), widths[item])
            x += widths[item] + _ACROSS
    return boxes


def _middle(above: Iterable[_Key], boxes: Mapping[_Key, _Box]) -> float:
    centres = [boxes[each].x + boxes[each].width / 2 for each in above if each in boxes]
    return sum(centres) / len(centres) if centres else 0.0


def _line(edge: _Edge, boxes: Mapping[_Key, _Box]) -> str:
    start, end = boxes[edge.start], boxes[edge.end]
    x1, x2 = start.x + start.width / 2, end.x + end.width / 2
    y1, y2 = (start.y + _HEIGHT, end.y) if start.y < end.y else (start.y, end.y + _HEIGHT)
    kind = 'marker-end="url(#streamsapp-arrow)"' if edge.flows else 'stroke-dasharray="4 3"'
    middle = (y1 + y2) / 2
    return f'<path d="M{x1:.1f} {y1:.1f}C{x1:.1f} {middle:.1f} {x2:.1f} {middle:.1f} {x2:.1f} {y2:.1f}" {kind}/>'


def _shape(item: _Key, box: _Box) -> str:
    kind, name = item
    radius = {"topic": _HEIGHT / 2, "store": 0}.get(kind, 6)
    dashed = ' stroke-width="2"' if kind == "store" else ""
    return (
        f'<g data-kind="{kind}"><title>{escape(f"{kind} {name}")}</title>'
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{_HEIGHT}" rx="{radius}"{dashed}/>'
        f'<text x="{box.x + box.width / 2:.1f}" y="{box.y + _HEIGHT / 2 + 4:.1f}" text-anchor="middle" '
        f'fill="currentColor" stroke="none">{escape(name)}</text></g>'
    )
