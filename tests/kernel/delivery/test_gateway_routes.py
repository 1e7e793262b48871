"""Gateway routes: doubt decides. Elsewhere only what was surely not taken, again only where it is
remembered."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from outrider.domain.ids import DEFAULT_SCOPE
from outrider.kernel.access.workspace_names import WorkspaceNames
from outrider.kernel.contracts.contract_cache import ContractCache
from outrider.kernel.delivery.gateway_routes import AttemptHistory, GatewayRoutes
from outrider.settings import TargetSettings
from outrider.testing.launches import target
from tests.support.whole_runs import opened

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
URL = "http://127.0.0.1:9"


async def test_after_a_silence_only_a_target_that_remembers_is_asked_again(
    database: str, tmp_path: Path
) -> None:
    targets = [target("remembers", "sms", URL), target("forgets", "sms", URL)]
    declared = {"remembers": TargetSettings(remembers_references="1h")}
    async with opened(database, tmp_path, *targets, targets=declared) as outrider:
        names = WorkspaceNames(outrider.store, outrider.limits)
        every = GatewayRoutes(outrider.gateways, ContractCache(outrider.store), names)
        routes = await every.of(DEFAULT_SCOPE)
        contracts = outrider.registry_keeper.contracts()
        silent = AttemptHistory(1, None, maybe_received=True, submitted_at=NOON)
        soon, late = NOON + timedelta(minutes=58), NOON + timedelta(minutes=59)
        again = await routes.next(contracts["remembers"], None, silent, soon)
        assert again is not None
        assert again.submission_target == "remembers"
        assert await routes.next(contracts["remembers"], None, silent, late) is None
        assert await routes.next(contracts["forgets"], None, silent, soon) is None
        refused = silent._replace(maybe_received=False)
        safe = await routes.next(contracts["forgets"], None, refused, late)
        assert safe is not None
        worn_out = refused._replace(is_worn_out=True)
        assert await routes.next(contracts["forgets"], None, worn_out, soon) is None
