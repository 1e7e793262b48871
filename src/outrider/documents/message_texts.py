"""What the texts of a campaign's messages, variants included, must be together."""

from typing import Any

from outrider.documents import Problems
from outrider.domain.states import Channel
from outrider.limits.campaigns import MESSAGES_MAX_BYTES


def small_together(given: object) -> object:
    """Before any of them is compiled."""
    messages = given if isinstance(given, list) else []
    texts = [text for each in messages if isinstance(each, dict) for text in _texts(each)]
    bodies = [text.get("body") for text in texts]
    size = sum(len(body.encode(errors="surrogatepass")) for body in bodies if isinstance(body, str))
    if size > MESSAGES_MAX_BYTES:
        raise ValueError(
            f"must have bodies of at most {MESSAGES_MAX_BYTES:,} bytes together, not {size:,};"
            " split the campaign"
        )
    return given


def note_shared_scripts(given: object, problems: Problems) -> None:
    """Calls are identified by their script's version: of two messages with the same one, the second
    would never be delivered."""
    messages = given.get("messages") if isinstance(given, dict) else None
    first: dict[str, tuple[int, object]] = {}
    for index, message in enumerate(messages if isinstance(messages, list) else ()):
        if not isinstance(message, dict) or message.get("channel") != Channel.VOICE:
            continue
        versions = [text.get("scriptVersion") for text in _texts(message)]
        message_id = message.get("id")
        for version in dict.fromkeys(each for each in versions if isinstance(each, str)):
            earlier, other_id = first.setdefault(version, (index, message_id))
            if earlier != index:
                problems.add(
                    f"messages[{index}].scriptVersion",
                    f"is the same as messages[{earlier}].scriptVersion, so that the calls of"
                    f" '{other_id}' and '{message_id}' could not be distinguished; give each its"
                    " own, or none",
                )


def _texts(message: dict[str, Any]) -> list[dict[str, Any]]:
    """A message as it was given, and its variants."""
    variants = message.get("variants")
    given = variants if isinstance(variants, list) else []
    return [message, *(each for each in given if isinstance(each, dict))]
