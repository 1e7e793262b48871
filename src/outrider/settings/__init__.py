"""What an operator sets. Flags > environment > `outrider.toml` > defaults.

`Settings` is all of it; each table of `outrider.toml` has a file of its own here, and an engine's
settings are in the engine's folder. Limits that nobody sets are in `outrider.limits`.
"""

from outrider.settings.admission import AdmissionSettings, AdmissionTable
from outrider.settings.operator_settings import Settings, setting_names
from outrider.settings.retention import RetentionSettings
from outrider.settings.sinks import SinkSettings
from outrider.settings.sources import kept_in_files
from outrider.settings.state_store import StateStoreSettings
from outrider.settings.targets import (
    DomainSettings,
    OptOutAnswers,
    SecretReference,
    TargetSettings,
    WorkspaceTarget,
)

__all__ = [
    "AdmissionSettings",
    "AdmissionTable",
    "DomainSettings",
    "OptOutAnswers",
    "RetentionSettings",
    "SecretReference",
    "Settings",
    "SinkSettings",
    "StateStoreSettings",
    "TargetSettings",
    "WorkspaceTarget",
    "kept_in_files",
    "setting_names",
]
