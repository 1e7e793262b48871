"""Merkle trees as in RFC 6962: one root over many rows, and a short proof for each of them."""

import hashlib
from collections.abc import Sequence

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


def inclusion_path(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """The hashes beside the way from a leaf to the root, from below."""
    if len(leaves) == 1:
        return []
    split = _split(len(leaves))
    if index < split:
        return [*inclusion_path(leaves[:split], index), root_of(leaves[split:])]
    return [*inclusion_path(leaves[split:], index - split), root_of(leaves[:split])]


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
