// The phases of a campaign as a track: the state of each, its progress, and what can be done.

import { h } from "../dom.js";
import { phaseButtons } from "../phase_controls.js";
import { serverNow } from "../server_clock.js";
import { ended } from "../state/accounting.js";
import { controlPhaseOf, isGuessed, shownStateOf, stateOf } from "../state/campaign_view.js";
import { percentage, title } from "../state/format.js";
import { makeHash } from "../state/hash.js";
import { successName } from "../state/phase_words.js";
import { linkButton } from "../parts/controls.js";
import { bar } from "../parts/ledger.js";
import { exactMoment, span } from "../parts/timestamps.js";
import { pill } from "../parts/pill.js";
import { reasonSentence } from "../parts/sentences.js";
import { waitWords } from "../parts/words.js";
import { campaignTrack as texts } from "../texts/campaigns.js";

/**
 * `inspected` is the phase that is looked at, `countedOf` what is known of a phase's items, and
 * `say` shows what a control answered.
 */
export function phaseTrack(view, page) {
  return h(
    "ol",
    { class: "track", "aria-label": texts.phases },
    view.phaseOrder.map((phase, index) => stage(view, phase, index, page)),
  );
}

function stage(view, phase, index, { context, live, inspected, countedOf, say }) {
  const { frame, id, query } = context;
  const found = view.phases[phase];
  const state = stateOf(view, phase);
  const isControlled = controlPhaseOf(view) === phase;
  const word = shownStateOf(view, phase, serverNow());
  const begun = state !== "not_started";
  const counted = countedOf(found);
  const progress = counted === found.accounting ? found.progressPercentage
    : (100 * ended(counted)) / counted.intended;
  return h(
    "li",
    {
      class: `stage stage-${state} ${phase === inspected ? "stage-inspected" : ""}`,
      "data-key": phase,
      "data-phase": phase,
      "data-state": state,
      "data-control": isControlled ? "true" : null,
    },
    h(
      "div",
      { class: "stage-head" },
      h("span", { class: "stage-number", "aria-hidden": "true" }, index + 1),
      h("a", {
        class: "stage-name",
        href: makeHash("campaigns", id, { ...query, phase }),
        "aria-current": phase === inspected ? "true" : null,
      }, title(phase)),
      pill(word, { isGuess: isGuessed(view, phase) }),
    ),
    h("div", { class: "stage-progress" }, bar(counted, { success: successName(phase) }),
      h("div", { class: "with-bar-words" },
        h("span", { "data-figure": "progress" }, begun ? percentage(progress) : "–"),
        h("span", {}, begun && found.startedAt && word !== "scheduled"
          ? (found.finishedAt || state === "in_progress" || state === "paused"
            ? span(found.startedAt, found.finishedAt) : "")
          : ""))),
    why(found, word),
    frame.canOperate && h("div", { class: "stage-controls" },
      phaseButtons(live, view, phase, say),
      found.waitsFor === "approval" && linkButton(texts.reviewRun,
        makeHash("runs", found.runId), { look: "small" })),
  );
}

function why(found, word) {
  const words = waitWords(found.waitsFor)
    ?? (word === "scheduled" ? [texts.starts, exactMoment(found.scheduledFor)] : null)
    ?? (found.reason && word !== "stopped" ? [texts.reason, reasonSentence(found.reason)] : null);
  return words && h("div", { class: "small muted breakable" }, words);
}
