// The steps of a launch's rollout: how far it has come, and what releases the next one.

import { post, segment } from "../api.js";
import { h } from "../dom.js";
import { count, plural } from "../state/format.js";
import { ask } from "../parts/dialog.js";
import { button } from "../parts/controls.js";
import { failureToast } from "../parts/feedback.js";
import { pill } from "../parts/pill.js";
import { exactMoment, moment } from "../parts/timestamps.js";
import { card, table } from "../parts/table.js";
import { campaignRollout as texts } from "../texts/campaigns.js";

/** Nothing for a launch without a rollout. `done` is called when a step was released. */
export function rolloutCard({ state, runId, rollout = [] }, { canOperate, done }) {
  const next = rollout.find((step) => step.state === "waiting");
  const canAdvance = canOperate && next && state === "in_progress";
  return rollout.length > 0 && card(
    texts.heading,
    h("div", { "data-rollout": runId },
      table(texts.heading, COLUMNS, rollout, (step) => String(step.step)),
      canAdvance && h("div", { class: "card-body" }, button(texts.advance(next.percent), {
        sign: "play",
        look: "small",
        "data-action": "advance",
        onclick: (event) => event.detail <= 1 && advance(runId, next, done),
      }))),
  );
}

async function advance(runId, next, done) {
  const agreed = await ask({
    heading: texts.advance(next.percent),
    words: texts.advanceHint(plural(next.items, "message")),
    confirm: texts.advanceConfirm,
    isDanger: true,
  });
  if (!agreed) {
    return;
  }
  try {
    await post(`/runs/${segment(runId)}/signals`, { signal: "ADVANCE" });
    await done();
  } catch (error) {
    failureToast(error);
  }
}

const COLUMNS = [
  { name: texts.step, of: (step) => texts.percent(step.percent) },
  { name: texts.state, of: (step) => pill(step.state, { words: texts.states[step.state] }) },
  { name: texts.items, kind: "number", of: (step) => count(step.items) },
  { name: texts.note, of: (step) => noteOf(step) },
];

function noteOf(step) {
  if (step.haltedFor.length > 0) {
    return texts.haltedFor(step.haltedFor.map((rate) => texts.rates[rate] ?? rate).join(", "));
  }
  if (step.state === "holding" && step.holdMinutes > 0) {
    return [texts.holdUntil, exactMoment(step.holdUntil)];
  }
  if (step.state === "waiting") {
    return h("span", { class: "muted" }, texts.afterTheOneBefore);
  }
  return [texts.released, moment(step.releasedAt),
    step.releasedBy && step.releasedBy !== "plan" ? texts.by(step.releasedBy) : ""];
}
