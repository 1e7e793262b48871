// Where messages go out: each target's contract, its door, its rate, and how it fares.

import { get } from "../api.js";
import { h, render } from "../dom.js";
import { count, duration, plural, rate, title } from "../state/format.js";
import { linkButton } from "../parts/controls.js";
import { empty, note } from "../parts/feedback.js";
import { moment } from "../parts/moments.js";
import { pill, tag } from "../parts/pill.js";
import { card, facts } from "../parts/table.js";

const DOORS = {
  open: ["completed", "Healthy"],
  throttled: ["paused", "Throttled"],
  down: ["failed", "Down"],
  paused: ["paused", "Paused"],
};

export async function show({ main, signal, frame }) {
  frame.head({ title: "Targets",
    under: "Gateways that messages are submitted to, and the contract of each." });
  const { targets } = await get("/targets", {}, { signal });
  render(
    main,
    targets.length === 0
      ? card(null, empty("targets", "No targets",
        "The registry names them. `outrider registry check` says what is wrong with it.",
        linkButton("See the campaigns", "#/campaigns")))
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
        ["Gateway", target.gatewayType],
        ["Channel", tag(target.channel)],
        ["Mode", target.mode],
        ["Contract", contract(target)],
        ["Rate", target.execution.ratePerSecond
          ? `${rate(target.execution.ratePerSecond)}, bursts of ${count(target.execution.burst)}`
          : "Not limited"],
        target.state?.slots && ["Calls at once", `at most ${count(target.state.slots)}, for now`],
        ["Counts as down", `after ${plural(target.execution.breakerFailures, "failure")}; a probe every `
          + duration(target.execution.breakerSeconds * 1000)],
        ["Retries", retries(target.execution)],
        target.execution.fallback && ["Falls back to", target.execution.fallback],
        ["Remembers references", memory(target.remembersReferences)],
        ["Open jobs", count(target.openJobs)],
        ["In doubt", target.inDoubt > 0
          ? h("a", { href: "#/doubts" }, count(target.inDoubt)) : "0"],
        target.gatewayUrl && ["URL", h("code", { class: "breakable" }, target.gatewayUrl)],
      ),
      target.terminalOutcomes.length > 0 && h("div", { class: "button-row" },
        h("span", { class: "muted small" }, "Final refusals"), target.terminalOutcomes.map(tag)),
    ),
    pill(look, { words }),
  );
}

function whyClosed({ door, since, reason, resumeAt, probeAt, pausedBy }) {
  const next = resumeAt ?? probeAt;
  return [
    door === "paused" ? `Paused by ${pausedBy}` : `${title(door)}`,
    since && [" since ", moment(since)],
    ". ",
    door !== "paused" && next && ["Next call ", moment(next), ". "],
    door === "paused" && "`outrider target resume` sends again. ",
    reason,
  ];
}

function retries({ retryFirstSeconds, retryFactor, retryCapSeconds }) {
  const first = duration(retryFirstSeconds * 1000);
  return retryFactor === 1 ? `every ${first}`
    : `after ${first}, then × ${retryFactor}, at most ${duration(retryCapSeconds * 1000)}`;
}

function contract(target) {
  if (target.policy === "deadline") {
    return `accepted within ${duration(target.maxAcceptanceSeconds * 1000)}`;
  }
  return target.policy === "max_attempts" ? `at most ${plural(target.maxAttempts, "attempt")}`
    : "one attempt";
}

function memory(declared) {
  if (declared === "never" || declared === "in_flight") {
    const words = declared === "never" ? "Never" : "Only while a call is under way";
    return `${words}: what went silent is in doubt`;
  }
  const words = declared === "for_good" ? "For good" : `For ${declared}`;
  return `${words}: what went silent is called again`;
}
