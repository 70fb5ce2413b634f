"""The orders in which Java's collections iterate, as far as Kafka's topology text shows them.

Kafka collects a sub-topology's nodes in hash maps, and each node's neighbours in tree sets. Their sort key, the size of
the sub-tree below a node, still changes while they fill. The printed order therefore depends on hash codes, on table
growth and on the shape of the trees at the moment of each insertion; all three are followed here. Modelled on the
collections of OpenJDK 17.

Called by the topology description, on any thread; pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

_DEFAULT_TABLE = 16
_TREEIFY_BIN = 8
_UNTREEIFY_BIN = 6
_TREEIFY_TABLE = 64


def utf16(text: str) -> bytes:
    """Sort key that orders strings as Java does, by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def string_hash(text: str) -> int:
    """``String.hashCode`` as an unsigned 32-bit number."""
    units = utf16(text)
    code = 0
    for index in range(0, len(units), 2):
        code = (31 * code + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return code


def hash_set_order(names: Iterable[str]) -> list[str]:
    """Iteration order of a ``HashSet`` (or the keys of a ``HashMap``) that grew from empty as ``names`` were added."""
    return _HashTable(_DEFAULT_TABLE).fill(names)


def hash_set_copy_order(names: Collection[str]) -> list[str]:
    """Iteration order of ``new HashSet<>(names)``, which sizes its table up front; ``names`` in their own order."""
    capacity = max(int(len(names) / 0.75) + 1, _DEFAULT_TABLE)
    return _HashTable(1 << (capacity - 1).bit_length()).fill(names)


class _TreeNode(Generic[T]):
    __slots__ = ("item", "left", "parent", "red", "right")

    def __init__(self, item: T, parent: _TreeNode[T] | None) -> None:
        self.item = item
        self.parent = parent
        self.left: _TreeNode[T] | None = None
        self.right: _TreeNode[T] | None = None
        self.red = True


class TreeSet(Generic[T]):
    """A red-black tree that compares only while inserting, so that a sort key may change later on."""

    def __init__(self, compare: Callable[[T, T], int]) -> None:
        self._compare = compare
        self._root: _TreeNode[T] | None = None

    def add(self, item: T) -> T | None:
        """Insert unless an equal item is met on the way down; returns the item it was hung below."""
        parent: _TreeNode[T] | None = None
        node = self._root
        order = 0
        while node is not None:
            order = self._compare(item, node.item)
            if order == 0:
                return None
            parent, node = node, node.left if order < 0 else node.right
        added = _TreeNode(item, parent)
        if parent is None:
            self._root = added
        elif order < 0:
            parent.left = added
        else:
            parent.right = added
        self._rebalance(added)
        return None if parent is None else parent.item

    @property
    def root(self) -> T | None:
        """The item at the top."""
        return None if self._root is None else self._root.item

    def __iter__(self) -> Iterator[T]:
        stack: list[_TreeNode[T]] = []
        node = self._root
        while stack or node is not None:
            while node is not None:
                stack.append(node)
                node = node.left
            node = stack.pop()
            yield node.item
            node = node.right

    def _rebalance(self, node: _TreeNode[T]) -> None:
        while (parent := node.parent) is not None and parent.red and (grand := parent.parent) is not None:
            uncle = grand.right if parent is grand.left else grand.left
            if uncle is not None and uncle.red:
                parent.red = uncle.red = False
                grand.red = True
                node = grand
                continue
            if (node is parent.left) != (parent is grand.left):
                self._rotate(parent, left=node is parent.right)
                parent = node
            parent.red = False
            grand.red = True
            self._rotate(grand, left=parent is grand.right)
            break
        assert self._root is not None
        self._root.red = False

    def _rotate(self, node: _TreeNode[T], *, left: bool) -> None:
        """Put the right (``left=True``) or left child of ``node`` in its place, and ``node`` below it."""
        child = node.right if left else node.left
        assert child is not None
        inner = child.left if left else child.right
        if left:
            node.right, child.left = inner, node
        else:
            node.left, child.right = inner, node
        if inner is not None:
            inner.parent = node
        child.parent = node.parent
        if node.parent is None:
            self._root = child
        elif node.parent.left is node:
            node.parent.left = child
        else:
            node.parent.right = child
        node.parent = child


class _Entry:
    __slots__ = ("hash", "key", "name")

    def __init__(self, name: str) -> None:
        code = string_hash(name)
        spread = code ^ (code >> 16)
        self.name = name
        self.hash = spread
        signed = spread - (1 << 32) if spread >> 31 else spread
        self.key = (signed, utf16(name))


def _compare_entries(left: _Entry, right: _Entry) -> int:
    return (left.key > right.key) - (left.key < right.key)


class _Bin:
    """The entries of one bucket in iteration order, and the tree laid over them once there are many."""

    def __init__(self, entries: list[_Entry]) -> None:
        self.entries = entries
        self.tree: TreeSet[_Entry] | None = None

    def treeify(self) -> None:
        self.tree = TreeSet(_compare_entries)
        for entry in self.entries:
            self.tree.add(entry)
        self._root_to_front()

    def add_to_tree(self, tree: TreeSet[_Entry], entry: _Entry) -> None:
        parent = tree.add(entry)
        assert parent is not None
        self.entries.insert(self.entries.index(parent) + 1, entry)
        self._root_to_front()

    def _root_to_front(self) -> None:
        """A tree's root is always the first entry of its bucket, whatever the order before."""
        root = self.tree.root if self.tree is not None else None
        assert root is not None
        self.entries.remove(root)
        self.entries.insert(0, root)


class _HashTable:
    """``java.util.HashMap`` with string keys, insertions only."""

    def __init__(self, size: int) -> None:
        self._bins: list[_Bin | None] = [None] * size
        self._count = 0

    def fill(self, names: Iterable[str]) -> list[str]:
        for name in dict.fromkeys(names):
            self._add(_Entry(name))
        return [entry.name for bucket in self._bins if bucket is not None for entry in bucket.entries]

    def _add(self, entry: _Entry) -> None:
        index = entry.hash & (len(self._bins) - 1)
        bucket = self._bins[index]
        if bucket is None:
            self._bins[index] = _Bin([entry])
        elif bucket.tree is not None:
            bucket.add_to_tree(bucket.tree, entry)
        else:
            bucket.entries.append(entry)
            if len(bucket.entries) > _TREEIFY_BIN:
                self._relieve(bucket)
        self._count += 1
        if self._count > len(self._bins) * 3 // 4:
            self._grow()

    def _relieve(self, bucket: _Bin) -> None:
        """A long bucket becomes a tree, or makes a small table grow."""
        if len(self._bins) < _TREEIFY_TABLE:
            self._grow()
        else:
            bucket.treeify()

    def _grow(self) -> None:
        size = len(self._bins)
        bins: list[_Bin | None] = [None] * (2 * size)
        for index, bucket in enumerate(self._bins):
            if bucket is not None:
                low = [entry for entry in bucket.entries if not entry.hash & size]
                high = [entry for entry in bucket.entries if entry.hash & size]
                bins[index] = _split_bin(bucket, low, high)
                bins[index + size] = _split_bin(bucket, high, low)
        self._bins = bins


def _split_bin(bucket: _Bin, entries: list[_Entry], others: list[_Entry]) -> _Bin | None:
    """Returns one half of a bucket after its table has grown."""
    if not entries:
        return None
    half = _Bin(entries)
    if bucket.tree is not None and len(entries) > _UNTREEIFY_BIN:
        if others:
            half.treeify()
        else:
            half.tree = bucket.tree
    return half
