"""A rule of one's own about who may steer a run: the class that the settings name."""

from importlib import import_module
from inspect import iscoroutinefunction

from outrider.domain.errors import InvalidInput
from outrider.ports.authorisation import Authorisation


def load_authorisation(name: str) -> Authorisation:
    """`package.module:Class`, made without arguments; InvalidInput says what is wrong with it."""
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise _refusal(name, "is not of the form package.module:Class")
    try:
        rule: Authorisation = getattr(import_module(module), attribute)()
    except Exception as error:
        raise _refusal(name, f"cannot be loaded: {type(error).__name__}: {error}") from error
    if not iscoroutinefunction(getattr(rule, "decide", None)):
        raise _refusal(name, "should have the coroutine decide(principal, signal, run_id)")
    return rule


def _refusal(name: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"the authorisation '{name}' {why}",
        hint="fix OUTRIDER_AUTHORISATION, or unset it to let API keys and their scopes decide",
    )
