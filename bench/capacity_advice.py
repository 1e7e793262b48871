"""What docs/explanation/capacity.md says about layouts: the answer, and where each breaks."""

from typing import Any

import capacity_model as model
from capacity_forms import gigabytes
from capacity_plan import (
    CALLS_AT_ONCE,
    CAMPAIGN_DAYS,
    LARGEST,
    PER_DAY,
    SMALLEST,
    TEMPORAL_EVENTS,
    TEMPORAL_RATIO,
)
from outrider.limits.gateways import HTTP_CONCURRENCY, HTTP_CONNECTIONS
from outrider.limits.kernel import Limits
from outrider.limits.stores import POSTGRES_POOL_CONNECTIONS

PLANNED = f"{SMALLEST.planned_share * 100:g} %"

NEEDS = f"""Workers at three latencies of the provider, and in brackets how many calls are
then under way at once (rate × latency). One worker has {CALLS_AT_ONCE}: {HTTP_CONCURRENCY} for
each job, and {Limits.jobs_in_parallel} jobs. All of it for the busiest hour of a business day,
over HTTP, with {PLANNED} of everything planned for and {SMALLEST.days_kept:g} days kept in one
database; log and ledger are what a whole day leaves."""

LAYOUTS = f"""*What binds first* is the scarcest of workers' processors, calls at once,
Postgres's processors, disk writes and disk reads; *then* is what binds once that is lifted. The
provider takes {SMALLEST.provider_seconds * 1_000:.0f} ms. A worker has {SMALLEST.worker_cores:g}
cores; a database has {SMALLEST.database_cores:g}, {SMALLEST.database_memory_gigabytes:g} GB, a
disk that writes {SMALLEST.disk_megabytes_per_second:g} MB/s and reads
{SMALLEST.disk_reads_per_second:,.0f} pages a second; {PLANNED} of each is planned for.
{SMALLEST.days_kept:g} days are kept. *Even day*: the same every minute. *Business day*: 90 %
spread over the day with 12 % of it in the busiest hour, 10 % as one campaign that is due at
eleven; the wait is that of the last message. The index of the key is that of each database,
the log that of all."""


def opening(document: dict[str, Any], costs: model.Costs) -> str:
    layout = SMALLEST
    average, peak = PER_DAY / model.DAY_SECONDS, model.peak_rate(PER_DAY)
    needed = [model.workers_needed(costs, layout, rate) for rate in (average, peak)]
    busy = peak * costs.worker_microseconds * model.MICRO
    postgres = peak * costs.database_microseconds * model.MICRO
    grows = PER_DAY * (costs.rest_bytes + costs.key_index_bytes)
    daily = PER_DAY * costs.key_index_bytes
    fits = layout.database_memory_gigabytes * layout.planned_share * model.GIGABYTE / daily
    load = document["machine"]["loadBefore"]
    reads = _bound(costs, LARGEST, "disk reads")
    carried = model.bounds(costs, LARGEST, PER_DAY)[0].per_second >= peak
    return f"""# Capacity

**100 million messages a day {"fit" if carried else "do not fit"} on one Postgres** with
{layout.database_cores:g} cores, {layout.database_memory_gigabytes:g} GB and a good disk. That is
{average:,.0f} messages a second, and {peak:,.0f} in the busiest hour. With a provider that
answers in 200 ms, {needed[0]} workers carry the average and {needed[1]} the busiest hour.
Processors are not what runs out: in that hour all workers together use {busy:.1f} cores and
Postgres {postgres:.1f}. What does run out:

1. **Calls at once.** A worker has {CALLS_AT_ONCE}; at 200 ms they are {CALLS_AT_ONCE / 0.2:,.0f}
   messages a second at the very most. More workers are the whole answer.
2. **Memory for one index.** Keys are hashes and land anywhere in their index, which grows by
   {gigabytes(daily)} GB a day. After {fits:,.0f} days it no longer fits into {PLANNED} of
   {layout.database_memory_gigabytes:g} GB; from then on messages wait for reads of the disk,
   which bind at {reads:,.0f} messages a second where it makes
   {layout.disk_reads_per_second:,.0f} reads.
3. **Disk space.** The ledger and its audiences grow by {gigabytes(grows)} GB a day, and Outrider
   never deletes from them.

All of that is *modelled* from what was *measured*; every heading below says which of the two it
is. This page is generated from `bench/capacity.json` by `make capacity`; it was measured on
{document["when"][:10]} with a load of {load} on {document["machine"]["processors"]} processors
before anything began{_busy(document)}.

![how long one waits through a day, and how an index grows](../images/capacity.png)"""


def _busy(document: dict[str, Any]) -> str:
    machine = document["machine"]
    if machine["loadBefore"] <= machine["processors"]:
        return ""
    return ", a busy machine, on which processor time comes out too high: it is to be repeated"


def breaking(costs: model.Costs) -> str:
    events = PER_DAY / 1_000 * TEMPORAL_EVENTS
    run_rows = PER_DAY * CAMPAIGN_DAYS
    peak_log = model.peak_rate(PER_DAY) * model.log_bytes(costs, LARGEST, PER_DAY)
    log_kept = gigabytes(2 * LARGEST.checkpoint_seconds * peak_log)
    return f"""## Where each breaks, and what to do then (modelled)

- **K workers, one Postgres.** Calls at once bind first, and workers can be added: they share
  nothing but the database, in which each has up to {POSTGRES_POOL_CONNECTIONS} connections and
  one that listens, so raise `max_connections` for more than ten. Or let one have more: `outrider
  work --concurrency` is jobs at once, a target's `concurrency` is calls for each job,
  {HTTP_CONNECTIONS} connections are the most of a process. Then the disk binds. Give the log a
  device of its own, set `checkpoint_timeout` to 15 minutes and `max_wal_size` to {log_kept} GB,
  twice what the busiest hour writes in that time; with less, Postgres makes checkpoints more
  often. Once the key's index is far larger than memory, reads bind at
  {_bound(costs, LARGEST, "disk reads"):,.0f} messages a second, and more workers do not help any
  more.
- **Several databases** (works today). Put workspaces into different databases, each with its own
  workers and `OUTRIDER_DATABASE_URL`. Log, index and space are divided by their number. What you
  lose: one list of campaigns, and one workspace cannot be larger than its database.
- **The ledger partitioned by month, in one database** (*not built*). It would need the partition
  in the unique key, since Postgres keeps a key unique within a partition only. A run's id is a
  UUIDv7 and begins with its time, so `PARTITION BY RANGE (run_id)` with the key (tenant,
  workspace, run, hash) does it: a campaign item's hash contains its run already, so nothing
  becomes possible that was refused before. Single messages and workflow items have no run: they
  need a ledger of their own whose key stays unique for as long as a repetition is to be
  recognised. The gain is twofold: an old month is dropped at once, and new keys land among those
  of the runs under way (here {run_rows:,.0f} rows), so that the index that has to be in memory
  no longer grows with what is kept.
- **Temporal.** It gives out jobs; the ledger stays where it is, so the database's bounds do not
  move. Workers do {TEMPORAL_RATIO} of what they do on the local engine, and Temporal's own
  database takes about {events:,.0f} history events a day ({TEMPORAL_EVENTS} for 1,000 messages
  in jobs of 500); both were measured for `docs/explanation/engines.md`. Choose it for its
  operations, not for capacity.
- **A billion a day.** Several databases, because of space and of the index: each of ten is then
  the row of 100 million in the table above."""


def _bound(costs: model.Costs, layout: model.Layout, of: str) -> float:
    found = model.bounds(costs, layout, PER_DAY)
    return next(bound.per_second for bound in found if bound.of == of)
