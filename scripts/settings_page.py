"""Writes docs/reference/settings.md from the settings' code; a test checks that it is up to date.

Names, types, limits and defaults are pydantic's; the sentences are the docstrings of the fields.
"""

import ast
import inspect
import textwrap
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from outrider.domain.setting_names import OTHER_VARIABLES
from outrider.engines.table import EngineSettings
from outrider.settings import (
    AdmissionTable,
    DomainSettings,
    OptOutAnswers,
    Settings,
    SinkSettings,
    StateStoreSettings,
    TargetSettings,
    WorkspaceTarget,
    kept_in_files,
)

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "settings.md"

HEAD = """# Settings

Generated from the code by `make docs`; do not edit.

Flags take precedence over environment variables, variables over `outrider.toml` in the folder where
a command runs, and that file over the defaults. A variable is the setting's name in capitals, with
`OUTRIDER_` before it: `lease_seconds` is `OUTRIDER_LEASE_SECONDS`. Tables and lists can be written
as JSON in a variable. Unknown settings are refused. `outrider check` checks them all, and
`outrider init` writes a commented `outrider.toml` to start with.

"""
FILES = """
{names} may hold a secret. Instead of the variable,
`…_FILE` can name a file with the value: `OUTRIDER_DATABASE_URL_FILE=/run/secrets/database-url`.

Not settings, but read too: {others}.
"""
SECRET = "`env:NAME` or `file:PATH`"
CHOICES_MOST = 6
TABLES: dict[str, type[BaseModel]] = {
    '[targets."TARGET"]': TargetSettings,
    '[targets."TARGET".answers]': OptOutAnswers,
    '[targets."TARGET".domains."DOMAIN"]': DomainSettings,
    '[targets."TARGET".workspaces."TENANT/PROJECT/ENVIRONMENT"]': WorkspaceTarget,
    "[bus.NAME]": SinkSettings,
    "[admission]": AdmissionTable,
    "[stateStore]": StateStoreSettings,
}


def written_fields(model: type[BaseModel]) -> dict[str, tuple[str, str]]:
    """The annotation of each field and the docstring below it, in this class and its bases."""
    found: dict[str, tuple[str, str]] = {}
    for each in reversed(model.__mro__):
        if not issubclass(each, BaseModel) or each.__module__.startswith("pydantic"):
            continue
        [written] = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        assert isinstance(written, ast.ClassDef)
        for field, below in zip(written.body, written.body[1:], strict=False):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name), annotation=kind),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    found[name] = ast.unparse(kind), " ".join(text.split())
    return found


def page() -> str:
    files = ", ".join(f"`{name}`" for name in kept_in_files(Settings))
    others = ", ".join(f"`{name}`" for name in sorted(OTHER_VARIABLES))
    parts = [HEAD + table(Settings, EngineSettings) + FILES.format(names=files, others=others)]
    for each in EngineSettings.__bases__:
        name = each.__name__.removesuffix("Settings")
        parts.append(f"## Only with {name} as the engine\n\n{table(each)}")
    parts += [f"## `{name}`\n\n{table(model)}" for name, model in TABLES.items()]
    return "\n".join(parts)


def table(model: type[BaseModel], without: type[BaseModel] = BaseModel) -> str:
    written = written_fields(model)
    schema = model.model_json_schema(by_alias=False)
    rows = []
    for name, field in model.model_fields.items():
        if name in without.model_fields:
            continue
        annotation, sentence = written[name]
        kind = _type(schema["properties"][name], schema.get("$defs", {}))
        if annotation.startswith("SecretReference"):
            kind = SECRET
        cells = (f"`{field.alias or name}`", kind, _default(field), sentence.replace("|", "\\|"))
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(["| setting | type | default | what it is |", "|---|---|---|---|", *rows, ""])


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value: Any = field.get_default(call_default_factory=True)
    if value is None or value in ([], {}) or isinstance(value, BaseModel):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, list):
        return ", ".join(f"`{each}`" for each in value)
    return f"`{value}`"


def _type(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    if "$ref" in schema:
        return _type(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        kinds = [_type(each, definitions) for each in schema["anyOf"] if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in schema:
        if len(schema["enum"]) > CHOICES_MOST:
            return f"`{schema['title']}`"
        return ", ".join(f"`{each}`" for each in schema["enum"])
    match schema.get("type"):
        case "boolean":
            return "true or false"
        case "integer" | "number":
            return _number(schema)
        case "array":
            return f"list of {_type(schema['items'], definitions)}"
        case "object":
            return "table"
        case _:
            return "path" if schema.get("format") == "path" else "text"


def _number(schema: dict[str, Any]) -> str:
    kind = "whole number" if schema["type"] == "integer" else "number"
    least, most = schema.get("minimum"), schema.get("maximum")
    above = schema.get("exclusiveMinimum")
    limits = [
        f"from {least:g}" if least is not None else "",
        f"above {above:g}" if above is not None else "",
        f"up to {most:,}" if most is not None else "",
    ]
    return " ".join([kind, *filter(None, limits)])


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page())
