// Where messages go out: each target's contract, its breaker, its rate, and how it fares.

import { get } from "../api.js";
import { h, render } from "../dom.js";
import { count, duration, plural, rate, title } from "../state/format.js";
import { linkButton } from "../parts/controls.js";
import { empty, note } from "../parts/feedback.js";
import { moment } from "../parts/moments.js";
import { pill, tag } from "../parts/pill.js";
import { card, facts } from "../parts/table.js";

const BREAKERS = {
  closed: ["completed", "Healthy"],
  open: ["failed", "Breaker open"],
  probing: ["in_progress", "Probing"],
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
  const standing = target.state?.breaker ?? "closed";
  const [look, words] = BREAKERS[standing] ?? ["not_started", title(standing)];
  return card(
    target.submissionTarget,
    h(
      "div",
      { class: "card-body stack" },
      target.state?.breaker === "open" && note([
        `${plural(target.state.failures, "failure")} in a row. `,
        target.state.resumeAt && ["Calls begin again ", moment(target.state.resumeAt), "."],
      ], "warn"),
      facts(
        ["Gateway", target.gatewayType],
        ["Channel", tag(target.channel)],
        ["Mode", target.mode],
        ["Contract", contract(target)],
        ["Rate", target.execution.ratePerSecond
          ? `${rate(target.execution.ratePerSecond)}, bursts of ${count(target.execution.burst)}`
          : "Not limited"],
        ["Breaker", `after ${plural(target.execution.breakerFailures, "failure")}, for `
          + duration(target.execution.breakerSeconds * 1000)],
        ["Retries", retries(target.execution)],
        target.execution.fallback && ["Falls back to", target.execution.fallback],
        ["Same reference twice", target.dedupesByReference
          ? "Refused by the gateway: safe to repeat" : "Would be sent twice: never repeated"],
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
