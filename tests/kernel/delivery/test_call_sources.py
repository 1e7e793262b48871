"""A source that is known from the beginning: each item is taken once, in order."""

from outrider.kernel.delivery.call_sources import Listed


async def test_each_item_of_a_list_is_taken_once_in_order() -> None:
    source = Listed("abcde")
    await source.prepare()
    taken: list[str] = []
    while source.waiting():
        taken += source.take(2)
    assert taken == list("abcde")
    assert list(source.take(2)) == []


def test_as_many_wait_as_were_not_taken() -> None:
    source = Listed([1, 2, 3])
    assert source.waiting() == 3
    source.take(2)
    assert source.waiting() == 1
    source.take(2)
    assert source.waiting() == 0


async def test_nothing_is_added_to_a_list_later() -> None:
    assert await Listed([1]).more() is False
