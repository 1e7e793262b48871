// Where messages go out: each target's contract, its door, its rate, and how it fares.

import { get } from "../api.js";
import { h, render } from "../dom.js";
import { count, duration, plural, rate, title } from "../state/format.js";
import { makeHash } from "../state/hash.js";
import { linkButton } from "../parts/controls.js";
import { empty, note } from "../parts/feedback.js";
import { moment } from "../parts/timestamps.js";
import { pill, tag } from "../parts/pill.js";
import { card, facts } from "../parts/table.js";
import { targets as texts } from "../texts/operations.js";

const DOORS = {
  open: ["completed", texts.healthy],
  throttled: ["paused", texts.throttled],
  down: ["failed", texts.down],
  paused: ["paused", texts.paused],
};

/** All of them, or the one of the address. */
export async function show({ main, id, signal, frame }) {
  frame.head(id === null ? { title: texts.targets, under: texts.about }
    : { title: id, crumbs: [[texts.targets, "#/targets"]] });
  const found = await get("/targets", {}, { signal });
  const targets = found.targets.filter((each) => id === null || each.submissionTarget === id);
  render(
    main,
    targets.length === 0
      ? card(null, empty("targets", texts.noTargets,
        texts.noTargetsHint,
        linkButton(texts.goToCampaigns, "#/campaigns")))
      : h("div", { class: "columns columns-large" }, targets.map(targetCard)),
  );
}

function targetCard(target) {
  const door = target.state?.door ?? "open";
  const [look, words] = DOORS[door] ?? ["not_started", title(door)];
  return card(
    target.submissionTarget,
    h(
      "div",
      { class: "card-body stack" },
      door !== "open" && note(whyClosed(target.state), "warn"),
      facts(
        [texts.gateway, target.gatewayType],
        [texts.channel, tag(target.channel)],
        [texts.mode, target.mode],
        [texts.contract, contract(target)],
        [texts.rate, target.execution.ratePerSecond
          ? texts.rateAndBurst(rate(target.execution.ratePerSecond), count(target.execution.burst))
          : texts.unlimited],
        target.state?.slots && [texts.concurrency, texts.slots(count(target.state.slots))],
        [texts.breaker, texts.breakerAfter(plural(target.execution.breakerFailures, "failure"))
          + duration(target.execution.breakerSeconds * 1000)],
        [texts.retries, retries(target.execution)],
        target.execution.fallback && [texts.fallback, target.execution.fallback],
        [texts.remembersReferences, memory(target.remembersReferences)],
        [texts.openJobs, count(target.openJobs)],
        [texts.inDoubt, target.inDoubt > 0
          ? h("a", { href: makeHash("doubts", null, { submissionTarget: target.submissionTarget }) },
            count(target.inDoubt)) : "0"],
        target.gatewayUrl && ["URL", h("code", { class: "breakable" }, target.gatewayUrl)],
      ),
      target.terminalOutcomes.length > 0 && h("div", { class: "button-row" },
        h("span", { class: "muted small" }, texts.finalRefusals), target.terminalOutcomes.map(tag)),
    ),
    pill(look, { words }),
  );
}

function whyClosed({ door, since, reason, resumeAt, probeAt, pausedBy }) {
  const next = resumeAt ?? probeAt;
  return [
    door === "paused" ? texts.pausedBy(pausedBy) : `${title(door)}`,
    since && [texts.since, moment(since)],
    ". ",
    door !== "paused" && next && [texts.nextCall, moment(next), ". "],
    door === "paused" && texts.resumeHint,
    reason,
  ];
}

function retries({ retryFirstSeconds, retryFactor, retryCapSeconds }) {
  const first = duration(retryFirstSeconds * 1000);
  return retryFactor === 1 ? texts.every(first)
    : texts.backoff(first, retryFactor, duration(retryCapSeconds * 1000));
}

function contract(target) {
  if (target.policy === "deadline") {
    return texts.acceptedWithin(duration(target.maxAcceptanceSeconds * 1000));
  }
  return target.policy === "max_attempts" ? texts.atMost(plural(target.maxAttempts, "attempt"))
    : texts.oneAttempt;
}

function memory(declared) {
  if (declared === "never" || declared === "in_flight") {
    const words = declared === "never" ? texts.never : texts.whileCalling;
    return texts.silentInDoubt(words);
  }
  const words = declared === "for_good" ? texts.forever : texts.for(declared);
  return texts.silentRepeated(words);
}
