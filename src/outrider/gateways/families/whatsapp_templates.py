"""WhatsApp's approved templates: a message's parameters become a template's components.

A direct intent names them in its payload, which may name a template of its own:

    {"to": …, "body": …, "template": {"name": "order_shipped", "language": "de",
     "header": {"image": "https://…"}, "body": ["Ada", "4711"], "buttons": [{"url": "4711"}]}}

A rendered message has text only. A parameter never has a line end (Meta's error 132018), so each
line of the body is one; the last lines are those of the buttons that the target lists, and the
subject is the header's.

Source: https://developers.facebook.com/documentation/business-messaging/whatsapp/templates/components
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from outrider.domain.errors import InvalidInput
from outrider.gateways.content import Content
from outrider.gateways.family import Target

MEDIA: Final = frozenset({"image", "video", "document"})
HEADERS: Final = MEDIA | {"text"}
BUTTONS: Final[Mapping[str, str]] = {
    "url": "text", "quick_reply": "payload", "copy_code": "coupon_code", "flow": "action",
}  # fmt: skip
"""The kinds of button that take a parameter, and its type."""
FIELDS: Final = frozenset({"name", "language", "header", "body", "buttons"})

Component = dict[str, Any]


@dataclass(frozen=True, slots=True)
class UsualTemplate:
    """The target's own template; `name` is empty if it has none."""

    name: str
    language: str
    header: str
    buttons: Sequence[str]

    @classmethod
    def of(cls, target: Target) -> "UsualTemplate":
        header = target.option("templateHeader", "")
        kinds = [each.strip() for each in target.option("templateButtons", "").split(",")]
        buttons = [kind for kind in kinds if kind]
        if header and header not in HEADERS:
            raise InvalidInput(
                f"templateHeader of '{target.name}' is not one of {', '.join(sorted(HEADERS))}"
            )
        if not BUTTONS.keys() >= set(buttons):
            raise InvalidInput(
                f"templateButtons of '{target.name}' has others than {', '.join(BUTTONS)}"
            )
        language = target.option("templateLanguage", "en_US")
        return cls(target.option("template", ""), language, header, buttons)


def template_of(content: Content, usual: UsualTemplate) -> dict[str, Any] | None:
    """None: it is free text. InvalidInput: its parameters make no sense."""
    given = content.payload.get("template")
    if given is None:
        return _rendered(content, usual) if usual.name else None
    if not isinstance(given, Mapping) or not given.keys() <= FIELDS:
        raise InvalidInput(f"'template' is not an object of {', '.join(sorted(FIELDS))}")
    name, language = given.get("name", usual.name), given.get("language", usual.language)
    if not (isinstance(name, str) and name and isinstance(language, str)):
        raise InvalidInput("'template' requires the string 'name', and 'language' is one too")
    components = [
        *_header(given.get("header")),
        *_body(given.get("body", content.body.splitlines())),
        *_buttons(given.get("buttons", [])),
    ]
    return _template(name, language, components)


def _rendered(content: Content, usual: UsualTemplate) -> dict[str, Any]:
    lines = content.body.splitlines()
    count = len(usual.buttons)
    if len(lines) < count:
        raise InvalidInput(f"the body has fewer lines than the template has buttons ({count})")
    texts, codes = lines[: len(lines) - count], lines[len(lines) - count :]
    header: list[Component] = []
    if usual.header:
        subject = content.subject or ""
        header = _header(subject if usual.header == "text" else {usual.header: subject})
    given = [dict([pair]) for pair in zip(usual.buttons, codes, strict=True)]
    return _template(usual.name, usual.language, [*header, *_body(texts), *_buttons(given)])


def _template(name: str, language: str, components: list[Component]) -> dict[str, Any]:
    template: dict[str, Any] = {"name": name, "language": {"code": language}}
    return {**template, "components": components} if components else template


def _header(given: object) -> list[Component]:
    if given is None:
        return []
    if isinstance(given, str):
        return [{"type": "header", "parameters": [_text(given)]}]
    if isinstance(given, Mapping):
        filename = given.get("filename")
        named = {name: value for name, value in given.items() if name != "filename"}
        if len(named) == 1 and named.keys() <= MEDIA:
            ((kind, link),) = named.items()
            media = {"link": link} if filename is None else {"link": link, "filename": filename}
            if all(isinstance(each, str) and each for each in media.values()):
                return [{"type": "header", "parameters": [{"type": kind, kind: media}]}]
    raise InvalidInput("the template's 'header' is neither a string nor a link to a media file")


def _body(given: object) -> list[Component]:
    if isinstance(given, Mapping):
        named = [{**_text(value), "parameter_name": name} for name, value in given.items()]
        return [{"type": "body", "parameters": named}] if named else []
    if not isinstance(given, list):
        raise InvalidInput("the template's 'body' is neither a list nor an object of strings")
    return [{"type": "body", "parameters": [_text(each) for each in given]}] if given else []


def _buttons(given: object) -> list[Component]:
    """By their place among the template's buttons; None for one that takes no parameter."""
    if not isinstance(given, list):
        raise InvalidInput("the template's 'buttons' is not a list")
    return [_button(place, each) for place, each in enumerate(given) if each is not None]


def _button(place: int, given: object) -> Component:
    if not (isinstance(given, Mapping) and len(given) == 1 and given.keys() <= BUTTONS.keys()):
        raise InvalidInput(f"a template's button is an object with one of {', '.join(BUTTONS)}")
    ((kind, value),) = given.items()
    named = BUTTONS[kind]
    if kind != "flow" and not (isinstance(value, str) and value):
        raise InvalidInput(f"the parameter of a button '{kind}' is a string")
    parameter = {"type": named, named: value}
    return {"type": "button", "sub_type": kind, "index": str(place), "parameters": [parameter]}


def _text(value: object) -> dict[str, Any]:
    if not isinstance(value, str) or not value.strip() or len(value.splitlines()) > 1:
        raise InvalidInput("a template's parameter is a string of one line, and not empty")
    return {"type": "text", "text": value}
