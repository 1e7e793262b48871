"""Inclusion paths: of every leaf of trees of every size, and of nothing that was not asked for."""

import tracemalloc

from outrider.domain.merkle import InclusionPaths, leaf_hash, root_by_path, root_of

SIZES = 33
MANY = 20_000


def test_every_leaf_of_a_tree_of_any_size_has_a_path_to_its_root() -> None:
    for size in range(1, SIZES):
        leaves = [leaf_hash(str(place).encode()) for place in range(size)]
        tree = InclusionPaths([str(place) for place in range(size)])
        for place, leaf in enumerate(leaves):
            tree.add(str(place), leaf)
        paths = tree.paths()
        for place, leaf in enumerate(leaves):
            assert tree.places[str(place)] == place
            assert root_by_path(leaf, place, size, paths[str(place)]) == root_of(leaves)


def test_leaves_that_nobody_asked_for_are_not_kept() -> None:
    tree = InclusionPaths(["7"])
    tracemalloc.start()
    for place in range(MANY):
        tree.add(str(place), leaf_hash(str(place).encode()))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert list(tree.paths()) == ["7"]
    assert kept < 100_000
