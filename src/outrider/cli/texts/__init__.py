"""What the commands print: every sentence of the command line outside `--help`, by command.

A command's help is its docstring and an option's is its `help=`, beside the code they describe. All
other sentences are in this folder, one file per subject, so that they can be read and edited
together. `tests/unit/test_words.py` fails when a sentence is written elsewhere, or when a sentence
and the values it is given do not match.
"""

from outrider.cli.texts.campaigns import (
    Blockers,
    Campaign,
    CampaignControls,
    PhaseWords,
    Run,
    RunLog,
    RunRepointing,
    RunSignals,
    Watching,
)
from outrider.cli.texts.demo import (
    Demo,
    DemoChildren,
    DemoConductor,
    DemoStory,
    DemoTemporal,
)
from outrider.cli.texts.installation import (
    App,
    Console,
    Database,
    Init,
    Key,
    Registry,
    Remote,
    Sandbox,
    Serve,
    Session,
    WebServer,
    Work,
)
from outrider.cli.texts.messages import (
    Event,
    EventLines,
    Intent,
    IntentLines,
    Workflow,
    WorkflowDiffLines,
    WorkflowPolicy,
)
from outrider.cli.texts.operations import (
    Alerts,
    Bus,
    Doubts,
    History,
    Person,
    Receipts,
    ReceiveMail,
    Suppression,
    Target,
    Verify,
    Workers,
)

__all__ = [
    "Alerts",
    "App",
    "Blockers",
    "Bus",
    "Campaign",
    "CampaignControls",
    "Console",
    "Database",
    "Demo",
    "DemoChildren",
    "DemoConductor",
    "DemoStory",
    "DemoTemporal",
    "Doubts",
    "Event",
    "EventLines",
    "History",
    "Init",
    "Intent",
    "IntentLines",
    "Key",
    "Person",
    "PhaseWords",
    "Receipts",
    "ReceiveMail",
    "Registry",
    "Remote",
    "Run",
    "RunLog",
    "RunRepointing",
    "RunSignals",
    "Sandbox",
    "Serve",
    "Session",
    "Suppression",
    "Target",
    "Verify",
    "Watching",
    "WebServer",
    "Work",
    "Workers",
    "Workflow",
    "WorkflowDiffLines",
    "WorkflowPolicy",
]
