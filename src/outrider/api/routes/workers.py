"""Who works at the database: servers and workers, and what each of them holds."""

from outrider.api.context import PAGE_DEFAULT, After, Asker, Limit, Wired
from outrider.api.errors import ApiError
from outrider.api.models.common import Page
from outrider.api.models.workers import WorkerAnswer
from outrider.api.route import api_router
from outrider.api.worker_lines import worker_page
from outrider.domain.ids import DEFAULT_SCOPE

router = api_router("workers")


@router.get(
    "/workers",
    operation_id="listWorkers",
    summary="List servers and workers: who is alive, and what each holds",
)
async def list_workers(
    outrider: Wired, asker: Asker, limit: Limit = PAGE_DEFAULT, after: After = None
) -> Page[WorkerAnswer]:
    if asker.scope != DEFAULT_SCOPE:
        raise ApiError(
            403,
            "INSUFFICIENT_SCOPE",
            "workers are shared by all tenants, and only the default workspace may see them",
            hint="use the root key, or a key of the default workspace",
        )
    return await worker_page(outrider, after, limit)
