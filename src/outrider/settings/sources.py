"""Where settings come from besides flags: `outrider.toml`, variables, and files that these name."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    TomlConfigSettingsSource,
)

from outrider.domain.errors import InvalidInput, Problem
from outrider.domain.setting_names import PREFIX, in_our_names, unknown_variables
from outrider.limits.gateways import SECRET_MAX_BYTES

FILE = "_file"


def kept_in_files(settings_cls: type[BaseSettings]) -> list[str]:
    """Settings whose value is or holds a secret: OUTRIDER_*_FILE may name a file with it."""
    return [name for name, field in settings_cls.model_fields.items() if not field.repr]


class ContractNames(TomlConfigSettingsSource):
    """`outrider.toml`, which may also use a contract's own table names."""

    def __call__(self) -> dict[str, Any]:
        return in_our_names(super().__call__())


class _Whole(PydanticBaseSettingsSource):
    """A source that answers for all fields at once."""

    def get_field_value(
        self,
        field: FieldInfo,  # noqa: ARG002 - the signature is pydantic's
        field_name: str,
    ) -> tuple[Any, str, bool]:
        return None, field_name, False


class ValueFiles(_Whole):
    """Values from the files that OUTRIDER_*_FILE name, as containers and systemd hand out secrets.

    A variable beside its file must say the same: else one of them would be ignored in silence.
    """

    def __call__(self) -> dict[str, Any]:
        found, problems = {}, []
        for name in kept_in_files(self.settings_cls):
            variable = f"{PREFIX}{name.upper()}"
            path = os.environ.get(f"{variable}{FILE.upper()}")
            if not path:
                continue
            try:
                found[name] = _read(Path(path))
            except ValueError as error:
                problems.append(Problem(f"{variable}{FILE.upper()}", str(error)))
                continue
            if os.environ.get(variable, found[name]) != found[name]:
                message = f"is set beside {variable}, which has another value: remove one of them"
                problems.append(Problem(f"{variable}{FILE.upper()}", message))
        if problems:
            raise InvalidInput("the settings are not valid", problems)
        return found


def _read(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            raw = opened.read(SECRET_MAX_BYTES + 1)
        text = raw.decode().strip()
    except OSError as error:
        raise ValueError(f"names a file that cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError("names a file that is not text") from error
    if not text or len(raw) > SECRET_MAX_BYTES:
        raise ValueError("names a file that is " + ("too large" if text else "empty"))
    return text


class UnknownVariables(_Whole):
    """Passes unknown settings on as if they were known, so that they are refused like a table."""

    def __init__(
        self, settings_cls: type[BaseSettings], *others: PydanticBaseSettingsSource
    ) -> None:
        super().__init__(settings_cls)
        self._others = others

    def __call__(self) -> dict[str, Any]:
        given: list[Mapping[str, Any]] = [source() for source in self._others]
        files = [name + FILE for name in kept_in_files(self.settings_cls)]
        known = [*self.settings_cls.model_fields, *files]
        return dict(unknown_variables(os.environ, known, given))
