"""The jobs of a launch, as planned from how many members each batch of its audience has."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from outrider.domain.campaigns import Asset
from outrider.domain.ids import JobId
from outrider.domain.rollouts import DrawnShare
from outrider.domain.states import Channel
from outrider.domain.variants import Choice
from outrider.kernel.transactions.audience_counts import CountedAudience
from outrider.ports.store import Row, Rows


@dataclass(frozen=True, slots=True)
class JobPlan:
    asset: Asset
    first_position: int
    last_position: int
    item_count: int
    retry_job_id: JobId | None = None
    share: DrawnShare | None = None
    """Whom of these positions it is for, in a rollout."""
    rollout_step: int | None = None
    choice: Choice | None = None
    """Of a message with variants: whom of these. `awaits_winner`: its asset is not yet known."""
    awaits_winner: bool = False


def plan_launch(assets: Sequence[Asset], counted: CountedAudience) -> list[JobPlan]:
    plain = [asset for asset in assets if asset.message.variant is None]
    if counted.shares:
        plans = plan_rollout(plain, counted)
    else:
        plans = plan_jobs(plain, counted.batch_size, counted.batches)
    if not counted.varied:
        return plans
    plans += plan_variants(assets, counted)
    return sorted(plans, key=lambda plan: (plan.rollout_step or 0, plan.first_position))


def first_released(plans: Sequence[JobPlan]) -> int | None:
    """The step of a rollout that begins with the run: the first with any items, or the one before
    it, where that waits for a winner."""
    steps = [plan.rollout_step for plan in plans if plan.rollout_step is not None]
    first = min(steps, default=None)
    waits = any(plan.awaits_winner for plan in plans if plan.rollout_step == first)
    return first - 1 if first is not None and waits else first


def shares_of(plans: Sequence[JobPlan | None]) -> dict[str, list[object]]:
    """Which step of a rollout each job belongs to, and for whom of its positions it is. Jobs of
    all steps but the first wait until theirs is released."""
    steps = [plan.rollout_step if plan else None for plan in plans]
    first = first_released([plan for plan in plans if plan])
    choices = [plan.choice if plan else None for plan in plans]
    shares = [plan.share if plan else None for plan in plans]
    return {
        "rollout_step": list(steps),
        "first_draw": [share.first_draw if share else None for share in shares],
        "last_draw": [share.last_draw if share else None for share in shares],
        "awaits_step": [step is not None and step != first for step in steps],
        "first_choice": [each.first_choice if each else None for each in choices],
        "last_choice": [each.last_choice if each else None for each in choices],
        "awaits_winner": [plan is not None and plan.awaits_winner for plan in plans],
    }


def items_of_steps(plans: Iterable[JobPlan]) -> dict[int, int]:
    """How many items each step of a rollout has; steps without any are not among them."""
    items: Counter[int] = Counter()
    for plan in plans:
        if plan.rollout_step is not None:
            items[plan.rollout_step] += plan.item_count
    return items


def plan_jobs(assets: Sequence[Asset], batch_size: int, batches: Rows) -> list[JobPlan]:
    """Jobs in batch order, so that all messages of a campaign advance together.

    A post is one item, however large the audience is: it goes to a network, not to people.
    """
    plans = []
    posted = set()
    for batch, by_message in sorted(_counts(batches).items()):
        for asset in assets:
            items = _items(by_message, asset)
            if items and asset.message.channel is Channel.SOCIAL:
                items = int(asset.id not in posted)
                posted.add(asset.id)
            if items:
                first = batch * batch_size
                plans.append(JobPlan(asset, first, first + batch_size - 1, items))
    return plans


def plan_rollout(assets: Sequence[Asset], counted: CountedAudience) -> list[JobPlan]:
    """Step by step. A small share has few members in each batch, so its jobs span many of them; no
    job has more items than a batch."""
    plans: list[JobPlan] = []
    batch_size = counted.batch_size
    for number, share in enumerate(counted.shares):
        counts = _counts(row[:3] for row in counted.batches if row[3] == number)
        of_share = [
            JobPlan(
                asset, first * batch_size, (last + 1) * batch_size - 1, items,
                share=share, rollout_step=share.step,
            )
            for asset in assets
            for first, last, items in _packed(
                ((batch, _items(found, asset)) for batch, found in sorted(counts.items())),
                batch_size,
            )
        ]  # fmt: skip
        plans += sorted(of_share, key=lambda plan: plan.first_position)
    return plans


def plan_variants(assets: Sequence[Asset], counted: CountedAudience) -> list[JobPlan]:
    """Each part of a message's audience has its variant."""
    by_variant = {(each.message.id, each.message.variant): each for each in assets}
    batch_size = counted.batch_size
    return [
        JobPlan(
            by_variant[message_id, part.variant],
            first * batch_size, (last + 1) * batch_size - 1, items,
            share=part.share, rollout_step=part.share.step if counted.shares else None,
            choice=part.choice, awaits_winner=part.choice is None,
        )
        for message_id, varied in counted.varied.items()
        for number, part in enumerate(varied.parts)
        for first, last, items in _packed(
            ((row[0], row[2]) for row in varied.rows if row[1] == number), batch_size
        )
    ]  # fmt: skip


def _packed(counted: Iterable[tuple[int, int]], most: int) -> Iterator[tuple[int, int, int]]:
    """Consecutive batches together, as long as they have at most so many items: the first and the
    last of them, and how many."""
    first = last = total = 0
    for batch, items in counted:
        if total and total + items > most:
            yield first, last, total
            total = 0
        if not total:
            first = batch
        last, total = batch, total + items
    if total:
        yield first, last, total


def _counts(batches: Iterable[Row]) -> dict[int, dict[str | None, int]]:
    counts: dict[int, dict[str | None, int]] = {}
    for batch, message_id, count in batches:
        counts.setdefault(batch, {})[message_id] = count
    return counts


def _items(by_message: Mapping[str | None, int], asset: Asset) -> int:
    return by_message.get(None, 0) + by_message.get(asset.message.id, 0)
