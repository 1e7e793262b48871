"""The limit: the rows that Outrider writes for a campaign, by hand-written SQL and nothing else.

Members and jobs are enqueued; a window of 500 is claimed, reserved and closed, with its job and an
event. On Postgres, on SQLite, and, for calls over HTTP, a client alone with no database at all.
"""

import uvloop

from systems import raw_postgres, raw_sqlite
from systems.child import Request, read_request
from systems.crew import is_worker, worker_request
from systems.measures import System, measure
from systems.raw_http import HttpAlone


def system(request: Request) -> System:
    if request.options.get("gateway") == "sms":
        return HttpAlone(request)
    if request.database:
        return raw_postgres.RawPostgres(request)
    return raw_sqlite.RawSqlite(request)


async def main() -> None:
    if is_worker():
        request = worker_request()
        await (raw_postgres.work(request) if request.database else raw_sqlite.work(request))
    else:
        request = read_request()
        await measure(system(request), request)


if __name__ == "__main__":
    uvloop.run(main())
