"""Merkle trees as in RFC 6962: one root over many rows, and a short proof for each of them."""

import hashlib
from collections.abc import Collection, Sequence

LEAF = b"\x00"
NODE = b"\x01"
EMPTY = hashlib.sha256(b"").digest()


def leaf_hash(content: bytes) -> bytes:
    return hashlib.sha256(LEAF + content).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(NODE + left + right).digest()


class MerkleRoot:
    """The root of leaves that come one after another; keeps one hash per level only."""

    def __init__(self) -> None:
        self.leaves = 0
        self._full: list[bytes] = []
        """The roots of the complete trees so far, the largest first."""

    def add(self, leaf: bytes) -> None:
        self.leaves += 1
        self._full.append(leaf)
        size = self.leaves
        while size % 2 == 0:
            right = self._full.pop()
            self._full[-1] = node_hash(self._full[-1], right)
            size //= 2

    def root(self) -> bytes:
        if not self._full:
            return EMPTY
        *others, root = self._full
        for left in reversed(others):
            root = node_hash(left, root)
        return root


def root_of(leaves: Sequence[bytes]) -> bytes:
    tree = MerkleRoot()
    for leaf in leaves:
        tree.add(leaf)
    return tree.root()


class InclusionPaths:
    """The paths of a few leaves, from all that come one after another: the hashes beside the way
    from a leaf to the root, from below. It keeps no other leaves."""

    def __init__(self, wanted: Collection[str]) -> None:
        self.places: dict[str, int] = {}
        self._wanted = frozenset(wanted)
        self._paths: dict[str, list[bytes]] = {}
        self._leaves = 0
        self._full: list[tuple[bytes, list[str]]] = []
        """The root of each complete tree so far, and which of the wanted are below it."""

    def add(self, id_: str, leaf: bytes) -> None:
        below: list[str] = []
        if id_ in self._wanted:
            self.places[id_] = self._leaves
            self._paths[id_] = []
            below.append(id_)
        self._leaves += 1
        self._full.append((leaf, below))
        size = self._leaves
        while size % 2 == 0:
            self._join()
            size //= 2

    def paths(self) -> dict[str, list[bytes]]:
        """After the last leaf."""
        while len(self._full) > 1:
            self._join()
        return self._paths

    def _join(self) -> None:
        right, below_right = self._full.pop()
        left, below_left = self._full.pop()
        for id_ in below_left:
            self._paths[id_].append(right)
        for id_ in below_right:
            self._paths[id_].append(left)
        self._full.append((node_hash(left, right), below_left + below_right))


def root_by_path(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """The root that this path leads to; None if it is not a path of such a tree."""
    if size == 1:
        return leaf if not path and index == 0 else None
    if not path or not 0 <= index < size:
        return None
    *below, beside = path
    split = _split(size)
    if index < split:
        left = root_by_path(leaf, index, split, below)
        return None if left is None else node_hash(left, beside)
    right = root_by_path(leaf, index - split, size - split, below)
    return None if right is None else node_hash(beside, right)


def _split(size: int) -> int:
    """The largest power of two below the size."""
    return 1 << (size - 1).bit_length() - 1
