"""What endpoints depend on is resolved where the request is, not in a thread."""

from collections.abc import Iterator
from inspect import iscoroutinefunction

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from outrider.api.app import ROUTERS


def below(dependant: Dependant) -> Iterator[Dependant]:
    for each in dependant.dependencies:
        yield each
        yield from below(each)


def test_no_dependency_of_an_endpoint_takes_a_thread() -> None:
    routes = [each for router in ROUTERS for each in router.routes if isinstance(each, APIRoute)]
    calls = {each.call for route in routes for each in below(route.dependant)}
    assert calls
    assert [call for call in calls if not (iscoroutinefunction(call) or _is_async(call))] == []


def _is_async(instance: object) -> bool:
    return iscoroutinefunction(type(instance).__call__)
