"""Fields given twice are found in one pass, however many fields there are."""

from outrider.documents import twice


def test_duplicates_are_listed_in_order() -> None:
    assert twice(["b", "a", "b", "c", "a"]) == ["a", "b"]


def test_many_names_cost_one_look_each() -> None:
    looks = 0

    class Name(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            nonlocal looks
            looks += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    names = [Name(number) for number in range(2_000)] + [Name(7)]
    assert twice(names) == ["7"]
    assert looks < 10_000
