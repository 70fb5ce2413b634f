"""Lays out a topology for the console: where each node and topic stands, and how the lines between them run. Pure.

Called once for a page, on a thread of the HTTP server. Records flow downwards: what reads stands below what it reads,
in layers (Sugiyama, Tagawa, Toda 1981: cycles are cut, long edges pass the layers between, neighbours stand near each
other). Units are those of the page's text, so the drawing grows with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import ceil
from typing import Any

from streamsapp.topology.description import DescribedNode, TopologyDescription

#: The least size of a box, and the room between boxes.
WIDTH, HEIGHT, GAP_X, GAP_Y = 15.0, 4.5, 2.0, 2.5
#: A box is as wide as its name, up to so much; a name that is still longer goes on in the next line.
WIDEST = 27.0
#: The width of a character of a name and of the line below it, as wide fonts have them; the height of a line.
_NAME, _ABOUT, _LINE = 0.62, 0.52, 1.2
#: The room around a text.
_PADDING, _PADDING_OF_TOPICS = 1.5, 3.0
#: The width of a line on its way past a layer.
_LANE = 2.0
_SWEEPS = 8


@dataclass(eq=False)
class _Box:
    """A node, a topic, or the place where a line passes a layer."""

    name: str
    kind: str
    group: int | None = None
    described: DescribedNode | None = None
    above: list[_Box] = field(default_factory=list)
    below: list[_Box] = field(default_factory=list)
    layer: int = 0
    x: float = 0.0

    @cached_property
    def width(self) -> float:
        if self.kind == "lane":
            return _LANE
        return round(min(WIDEST, max(WIDTH, _NAME * len(self.name) + self._padding)), 2)

    @cached_property
    def height(self) -> float:
        if self.kind == "lane":
            return 0.0
        room = self.width - self._padding
        lines = ceil(_NAME * len(self.name) / room) + ceil(_ABOUT * len(self.about) / room)
        return round(HEIGHT + _LINE * (lines - 2), 2)

    @cached_property
    def about(self) -> str:
        """The line below the name."""
        if self.described is None:
            return self.kind
        return " · ".join((self.kind, f"sub-topology {self.group}", ", ".join(self.described.stores))).rstrip(" ·")

    @property
    def _padding(self) -> float:
        return _PADDING_OF_TOPICS if self.kind == "topic" else _PADDING


@dataclass(frozen=True)
class _Rows:
    """The beginning and the end of each layer, from top to bottom."""

    spans: dict[int, tuple[float, float]]

    @classmethod
    def of(cls, boxes: Iterable[_Box]) -> _Rows:
        heights: dict[int, float] = {}
        for box in boxes:
            heights[box.layer] = max(heights.get(box.layer, HEIGHT), box.height)
        spans, top = dict[int, tuple[float, float]](), 0.0
        for layer in sorted(heights):
            spans[layer] = (round(top, 2), round(top + heights[layer], 2))
            top = spans[layer][1] + GAP_Y
        return cls(spans)

    @property
    def bottom(self) -> float:
        return max((bottom for _, bottom in self.spans.values()), default=0.0)


def graph_document(description: TopologyDescription) -> dict[str, Any]:
    """Returns the boxes with their places, the lines as lists of points, and the size of it all."""
    boxes, lines = _boxes_of(description)
    chains = _layered(boxes, lines)
    left = 0.0
    for part in _parts(boxes, chains):
        left = _placed(part, left) + 2 * GAP_X
    rows = _Rows.of(boxes)
    return {
        "width": max((box.x + box.width for box in boxes), default=0.0),
        "height": rows.bottom,
        "boxes": [_told(box, rows) for box in boxes],
        "lines": [_points(chain, rows) for chain in chains],
    }


def _boxes_of(description: TopologyDescription) -> tuple[list[_Box], list[tuple[_Box, _Box]]]:
    nodes: dict[str, _Box] = {}
    topics: dict[str, _Box] = {}
    lines: list[tuple[_Box, _Box]] = []
    for group in description.groups:
        for node in group.nodes:
            nodes[node.name] = _Box(node.name, node.kind, group.id, node)
    for box in list(nodes.values()):
        assert box.described is not None
        for name in (*box.described.topics, *filter(None, (box.described.pattern, box.described.extractor))):
            topic = topics.setdefault(name, _Box(name, "topic"))
            lines.append((topic, box) if box.kind == "source" else (box, topic))
        lines += [(box, nodes[name]) for name in box.described.successors]
    return [*topics.values(), *nodes.values()], lines


def _layered(boxes: list[_Box], lines: Iterable[tuple[_Box, _Box]]) -> list[list[_Box]]:
    """Give each box its layer; returns each line with the lanes that it passes."""
    below: dict[_Box, list[_Box]] = {box: [] for box in boxes}
    for upper, lower in lines:
        below[upper].append(lower)
    forwards, order = _without_cycles(boxes, below)
    for box in order:
        for lower in forwards[box]:
            lower.layer = max(lower.layer, box.layer + 1)
    fed = {lower for lowers in forwards.values() for lower in lowers}
    for box in boxes:  # a topic that nothing here writes stands above what reads it first
        if box not in fed and forwards[box]:
            box.layer = min(lower.layer for lower in forwards[box]) - 1
    return [_chain(upper, lower) for upper, lower in lines]


def _without_cycles(boxes: list[_Box], below: dict[_Box, list[_Box]]) -> tuple[dict[_Box, list[_Box]], list[_Box]]:
    """Leaves out the lines that lead back; returns the rest, and the boxes in an order in which all lead on."""
    forwards: dict[_Box, list[_Box]] = {box: [] for box in boxes}
    done: dict[_Box, bool] = {}
    finished: list[_Box] = []
    for root in boxes:
        waiting = [] if root in done else [(root, iter(below[root]))]
        done.setdefault(root, False)
        while waiting:
            box, rest = waiting[-1]
            for lower in rest:
                if done.get(lower) is False:
                    continue  # it is on the way here: this line closes a circle
                forwards[box].append(lower)
                if lower not in done:
                    done[lower] = False
                    waiting.append((lower, iter(below[lower])))
                    break
            else:
                done[box] = True
                finished.append(box)
                waiting.pop()
    return forwards, finished[::-1]


def _chain(upper: _Box, lower: _Box) -> list[_Box]:
    """A line with a lane in each layer between its ends."""
    step = 1 if lower.layer >= upper.layer else -1
    lanes = [_Box("", "lane", layer=layer) for layer in range(upper.layer + step, lower.layer, step)]
    chain = [upper, *lanes, lower]
    for one, other in pairwise(chain):
        first, second = (one, other) if step > 0 else (other, one)
        first.below.append(second)
        second.above.append(first)
    return chain


def _parts(boxes: list[_Box], chains: list[list[_Box]]) -> list[list[_Box]]:
    """The boxes and lanes that hang together."""
    everything = [*boxes, *(each for chain in chains for each in chain[1:-1])]
    seen: set[_Box] = set()
    parts = []
    for root in everything:
        if root in seen:
            continue
        seen.add(root)
        part = [root]
        for box in part:
            found = [each for each in (*box.above, *box.below) if each not in seen]
            for each in dict.fromkeys(found):
                seen.add(each)
                part.append(each)
        parts.append(part)
    return parts


def _placed(part: list[_Box], left: float) -> float:
    """Give the boxes of a part their places, from ``left`` on; returns where they end."""
    layers: dict[int, list[_Box]] = {}
    for box in part:
        layers.setdefault(box.layer, []).append(box)
    for layer in layers.values():
        _spread(layer, [0.0] * len(layer))
    for sweep in range(_SWEEPS):
        downwards = sweep % 2 == 0
        for number in sorted(layers, reverse=not downwards):
            layer = layers[number]
            wanted = {box: _middle(box.above if downwards else box.below, box) for box in layer}
            layer.sort(key=wanted.__getitem__)
            _spread(layer, [wanted[box] for box in layer])
    shift = left - min(box.x for box in part)
    for box in part:
        box.x += shift
    return max(box.x + box.width for box in part)


def _middle(neighbours: list[_Box], box: _Box) -> float:
    """The middle of a box's neighbours, or its own if it has none."""
    if not neighbours:
        return box.x + box.width / 2
    return sum(each.x + each.width / 2 for each in neighbours) / len(neighbours)


def _spread(layer: list[_Box], middles: list[float]) -> None:
    """Put boxes side by side, as near to where their middles should be as the others leave room."""
    end: float | None = None
    moved = 0.0
    for box, middle in zip(layer, middles, strict=True):
        wanted = middle - box.width / 2
        box.x = wanted if end is None else max(wanted, end + GAP_X)
        end = box.x + box.width
        moved += box.x - wanted
    for box in layer:  # what was pushed to the right is shared by all
        box.x -= moved / len(layer)


def _told(box: _Box, rows: _Rows) -> dict[str, Any]:
    node, (top, bottom) = box.described, rows.spans[box.layer]
    return {
        "name": box.name,
        "kind": box.kind,
        "group": box.group,
        "stores": [] if node is None else list(node.stores),
        "about": box.about,
        "x": round(box.x, 2),
        "y": top,
        "width": box.width,
        "height": round(bottom - top, 2),
    }


def _points(chain: list[_Box], rows: _Rows) -> list[list[float]]:
    """The corners of a line, from the edge of one box to the edge of the other."""
    down = chain[-1].layer > chain[0].layer
    points: list[list[float]] = []
    for box in chain:
        x, (top, bottom) = round(box.x + box.width / 2, 2), rows.spans[box.layer]
        ends = [top, bottom] if down else [bottom, top]
        if box is chain[0]:
            ends = ends[1:]
        elif box is chain[-1]:
            ends = ends[:1]
        points += [[x, y] for y in ends]
    return points
