"""Writes the generated modules of client/ from the OpenAPI document; a test checks them.

`models.py` has a class for each schema, `operations.py` and `async_operations.py` a method for each
call. Everything else in the client is written by hand.
"""

import asyncio
import keyword
import re
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.api.app import create_app
from outrider.bootstrap import open_outrider
from outrider.settings import Settings

PACKAGE = Path(__file__).parent.parent / "client" / "src" / "outrider_client"
PREFIX = "/api/v2"
LINE = 96
HEAD = '"""{what}\n\nGenerated from the OpenAPI document by `make docs`; do not edit.\n"""\n\n'

# Streams have rules of their own, and only a phase's run completes it.
NOT_GENERATED = {"watchCampaign", "watchCampaigns", "completePhase"}
# They change something without an idempotency key: an ID in them makes them happen once.
ONCE_BY_ID = {"submitIntent", "submitIntents", "resubmitIntent", "emitEvent"}
READS = {"rehearseEvent"}
# Part of errors, which are read by hand.
NOT_MODELS = {"ProblemAnswer", "ErrorDetail", "FieldProblem"}
JSON = "application/json"

Schema = dict[str, Any]


@dataclass(frozen=True)
class Operation:
    name: str
    method: str
    path: str
    spec: Schema


async def openapi() -> Schema:
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(database_url=f"sqlite:///{folder}/none.db", spool=Path(folder))
        async with open_outrider(settings) as outrider:
            return create_app(outrider).openapi()


def generated(document: Schema) -> dict[str, str]:
    operations = [
        Operation(_snake(spec["operationId"]), method.upper(), path.removeprefix(PREFIX), spec)
        for path, methods in document["paths"].items()
        if path.startswith(PREFIX)
        for method, spec in methods.items()
        if spec["operationId"] not in NOT_GENERATED
    ]
    schemas: Schema = document["components"]["schemas"]
    models = _reachable(schemas, operations)
    modules = {
        "models.py": _models(schemas, models),
        "operations.py": _operations(operations, models, is_async=False),
        "async_operations.py": _operations(operations, models, is_async=True),
    }
    return {name: _formatted(text) for name, text in modules.items()}


def _reachable(schemas: Schema, operations: list[Operation]) -> list[str]:
    found = {"EventEnvelope"}
    waiting: list[object] = [schemas["EventEnvelope"], *(each.spec for each in operations)]
    while waiting:
        match waiting.pop():
            case {"$ref": str(ref)}:
                name = ref.rpartition("/")[2]
                if name not in found:
                    found.add(name)
                    waiting.append(schemas[name])
            case dict(members):
                waiting.extend(members.values())
            case list(members):
                waiting.extend(members)
    return sorted(each for each in found - NOT_MODELS if not each.startswith("Page_"))


def _models(schemas: Schema, names: list[str]) -> str:
    enums = [_enum(name, schemas[name]) for name in names if "enum" in schemas[name]]
    structs = [_struct(name, schemas[name]) for name in names if "enum" not in schemas[name]]
    head = HEAD.format(what="What calls send and answer.")
    imports = (
        "from __future__ import annotations\n\n"
        "from datetime import datetime\nfrom typing import Any\n\nfrom msgspec import field\n\n"
        "from outrider_client.base import Model, OpenEnum\n\n"
    )
    return head + imports + "\n\n".join([*enums, *structs])


def _enum(name: str, schema: Schema) -> str:
    members = "".join(f"    {_constant(value)} = {value!r}\n" for value in schema["enum"])
    return f"class {name}(OpenEnum):\n{members}"


def _struct(name: str, schema: Schema) -> str:
    required = schema.get("required", [])
    fields = "".join(
        _field(each, spec, is_required=each in required)
        for each, spec in schema["properties"].items()
    )
    about = _docstring(schema.get("description", ""), 4)
    return f"class {name}(Model, frozen=True, kw_only=True):\n{about}{fields}"


def _field(name: str, schema: Schema, *, is_required: bool) -> str:
    hint, python_name = _hint(schema), _snake(name)
    if keyword.iskeyword(python_name):
        python_name += "_"
    options = {} if _camel(python_name) == name else {"name": repr(name)}
    if hint.endswith("| None"):
        options["default"] = "None"
    elif "default" in schema:
        factory = {"[]": "list", "{}": "dict"}.get(repr(schema["default"]))
        if factory:
            options["default_factory"] = factory
        else:
            value = repr(schema["default"])
            options["default"] = f"{hint}({value})" if "$ref" in schema else value
    elif not is_required:
        hint, options["default"] = f"{hint} | None", "None"
    about = _docstring(schema.get("description", ""), 4)
    if not options:
        return f"    {python_name}: {hint}\n{about}"
    if options.keys() == {"default"}:
        return f"    {python_name}: {hint} = {options['default']}\n{about}"
    given = ", ".join(f"{key}={value}" for key, value in options.items())
    return f"    {python_name}: {hint} = field({given})\n{about}"


def _hint(schema: Schema) -> str:
    match schema:
        case {"$ref": str(ref)}:
            name = ref.rpartition("/")[2]
            page = re.fullmatch(r"Page_(.+)_", name)
            return f"Page[{page[1]}]" if page else name
        case {"anyOf": list(kinds)}:
            hints = dict.fromkeys(_hint(each) for each in kinds)
            return " | ".join(sorted(hints, key=lambda hint: hint == "None"))
        case {"type": "array", "items": items}:
            return f"list[{_hint(items)}]"
        case {"type": "object", "additionalProperties": dict(values)}:
            return f"dict[str, {_hint(values)}]"
        case {"type": "object"}:
            return "dict[str, Any]"
        case {"type": "string", "format": "date-time"}:
            return "datetime"
    simple = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
    return {**simple, "null": "None"}.get(str(schema.get("type")), "Any")


def _operations(operations: list[Operation], models: list[str], *, is_async: bool) -> str:
    prefix = "Async" if is_async else ""
    methods = "\n".join(_method(each, is_async=is_async) for each in operations)
    code = re.sub(r'""".*?"""', "", methods, flags=re.DOTALL)
    names = ", ".join(sorted(set(re.findall(r"\w+", code)) & set(models)))
    asked = "async def _ask" if is_async else "def _ask"
    return (
        HEAD.format(what=f"A method for each call, for {prefix}Client.")
        + "from abc import ABC, abstractmethod\nfrom collections.abc import Mapping\n"
        "from typing import Any, TypeVar\n\n"
        "from outrider_client.base import Page\n"
        "from outrider_client.calls import Call, Content, call\n"
        f"from outrider_client.models import {names}\n\nAnswer = TypeVar('Answer')\n\n\n"
        f"class {prefix}Operations(ABC):\n"
        f"    @abstractmethod\n    {asked}(self, asked: Call[Answer]) -> Answer: ...\n\n{methods}"
    )


def _method(operation: Operation, *, is_async: bool) -> str:
    spec = operation.spec
    parameters = spec.get("parameters", [])
    path = [each["name"] for each in parameters if each["in"] == "path"]
    query = [each for each in parameters if each["in"] == "query"]
    keyed = any(each["name"] == "X-Idempotency-Key" for each in parameters)
    known = {*ONCE_BY_ID, *READS}
    assert operation.method == "GET" or keyed or spec["operationId"] in known, operation
    body, passed = _body(spec)
    positional = ["self", *(f"{name}: str" for name in path), *body]
    named = [_query_argument(each) for each in query]
    named += ["idempotency_key: str | None = None"] if keyed else []
    arguments = ", ".join([*positional, *(["*"] if named else []), *named])
    answer = _answer(spec)
    steps = "".join(f"{_step(each)}, " for each in operation.path.strip("/").split("/"))
    given = [f'"{operation.method}"', f"({steps})", "type(None)" if answer == "None" else answer]
    if query:
        pairs = ", ".join(f'"{each["name"]}": {_snake(each["name"])}' for each in query)
        given.append(f"query={{{pairs}}}")
    given += passed
    given += ["keyed=True", "idempotency_key=idempotency_key"] if keyed else []
    about = _docstring(f"{spec['summary']}.\n\n{spec.get('description', '')}".strip(), 8)
    define, ask = ("async def", "await self._ask") if is_async else ("def", "self._ask")
    return (
        f"    {define} {operation.name}({arguments}) -> {answer}:\n{about}"
        f"        return {ask}(call({', '.join(given)}))\n"
    )


def _body(spec: Schema) -> tuple[list[str], list[str]]:
    """The arguments for the body, and how they are passed on."""
    request = spec.get("requestBody")
    if request is None:
        return [], []
    content = request["content"]
    if JSON not in content:
        kinds = list(content)
        argument = f'media_type: str = "{kinds[0]}"'
        return ["content: Content", argument], ["content=content", "media_type=media_type"]
    hint = _hint(content[JSON]["schema"])
    if hint == "dict[str, Any]" or "additionalProperties" in content[JSON]["schema"]:
        return ["body: Mapping[str, Any]"], ["body=body"]
    if hint.endswith(" | None"):
        model = hint.removesuffix(" | None")
        return [f"body: {model} | Mapping[str, Any] | None = None"], ["body=body"]
    return [f"body: {hint} | Mapping[str, Any]"], ["body=body"]


def _query_argument(parameter: Schema) -> str:
    hint = _hint(parameter["schema"]).removesuffix(" | None")
    name = _snake(parameter["name"])
    return f"{name}: {hint}" if parameter.get("required") else f"{name}: {hint} | None = None"


def _answer(spec: Schema) -> str:
    [*answers] = [each for status, each in spec["responses"].items() if status.startswith("2")]
    content = answers[0].get("content", {})
    if not content:
        return "None"
    return _hint(content[JSON]["schema"]) if list(content) == [JSON] else "bytes"


def _step(step: str) -> str:
    return step[1:-1] if step.startswith("{") else f'"{step}"'


def _docstring(text: str, indent: int) -> str:
    if not text:
        return ""
    lines = [
        line
        for part in text.replace("\\", "\\\\").split("\n")
        for line in textwrap.wrap(part, LINE - indent, break_long_words=False) or [""]
    ]
    if len(lines) == 1 and len(lines[0]) + indent + 6 <= LINE:
        return f'{" " * indent}"""{lines[0]}"""\n'
    return textwrap.indent('"""' + "\n".join(lines) + '\n"""\n', " " * indent)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").lower()


def _camel(name: str) -> str:
    """As msgspec renames."""
    first, *others = name.strip("_").split("_")
    return first + "".join(each.title() for each in others) if name.strip("_") == name else ""


def _constant(value: str) -> str:
    name = re.sub(r"\W", "_", value).upper()
    return f"_{name}" if name[:1].isdigit() else name


def _formatted(text: str) -> str:
    ruff = [str(Path(sys.executable).with_name("ruff"))]
    for command in (["check", "--fix", "--select", "I", "--quiet"], ["format", "--quiet"]):
        done = subprocess.run(
            [*ruff, *command, "--stdin-filename", str(PACKAGE / "generated.py"), "-"],
            input=text, stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        text = done.stdout
    return text


def main() -> None:
    for name, text in generated(asyncio.run(openapi())).items():
        (PACKAGE / name).write_text(text)


if __name__ == "__main__":
    main()
