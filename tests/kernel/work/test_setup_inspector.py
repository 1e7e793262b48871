"""The set-up inspector: a worker that starts holds targets that cannot be called, and no others."""

from pathlib import Path

from outrider.domain.ids import DEFAULT_SCOPE
from outrider.kernel.transactions.alerts import LAST, alerts_page
from outrider.ports.store import Store
from outrider.settings import TargetSettings
from outrider.testing.launches import target
from tests.support.noop_launches import NOOP
from tests.support.whole_runs import opened

MAIL = "mail.main"


async def held(store: Store) -> list[str]:
    page = alerts_page(DEFAULT_SCOPE, LAST, 10, only_open=True)
    return [alert.subject for alert in await store.read(page)]


async def test_a_target_is_held_while_its_options_are_wrong(database: str, tmp_path: Path) -> None:
    targets = [target(NOOP, "noop", "noop:"), target(MAIL, "smtp", "smtp://127.0.0.1:9")]
    wrong = {MAIL: TargetSettings(options={"colour": "red"})}
    async with opened(database, tmp_path, *targets, targets=wrong) as outrider, outrider.worker():
        assert await held(outrider.store) == [MAIL]
    async with opened(database, tmp_path, *targets) as outrider, outrider.worker():
        assert await held(outrider.store) == []
