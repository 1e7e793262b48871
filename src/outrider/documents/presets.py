"""Presets: sending hours that a law or a code of conduct asks for, each a data file that names its
source.

A policy refers to a preset by name; its windows are copied into the policy when that is set.
"""

import tomllib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from outrider.domain.screen_policies import DAYS, Preset, SendingWindow, minute_of_day
from outrider.domain.states import Channel


class DocumentedPreset(NamedTuple):
    preset: Preset
    title: str
    source: str
    checked: str
    not_covered: tuple[str, ...]


@cache
def presets() -> dict[str, DocumentedPreset]:
    found = {}
    for file in sorted(files("outrider").joinpath("presets").iterdir(), key=lambda each: each.name):
        document = tomllib.loads(file.read_text(encoding="utf-8"))
        windows = tuple(
            SendingWindow(
                minute_of_day(window["from"]),
                minute_of_day(window["to"]),
                frozenset(DAYS.index(day) for day in window["days"]),
                frozenset(Channel(name) for name in window["channels"]),
            )
            for window in document["sendingWindow"]
        )
        found[document["name"]] = DocumentedPreset(
            Preset(document["name"], windows),
            document["title"],
            document["source"],
            document["checked"].isoformat(),
            tuple(document["not_covered"]),
        )
    return found
