// Why something is not moving, as the server says it: what it waits for, since when, what to do.

import { h } from "../dom.js";
import { makeHash } from "../state/hash.js";
import { isFault, runbookLink } from "../state/blockers.js";
import { note } from "./feedback.js";
import { sentence } from "./sentences.js";
import { moment } from "./timestamps.js";
import { blockers as texts } from "../texts/operations.js";

/** `runId` leads from doubts to those of one run. */
export function blockerNotes(blockers, { runId = null } = {}) {
  return h("div", { class: "blockers", "aria-live": "polite" }, (blockers ?? []).map((blocker) => h("div", {
    "data-key": `${blocker.code} ${blocker.submissionTarget ?? ""}`,
    "data-blocker": blocker.code,
  }, one(blocker, runId))));
}

function one(blocker, runId) {
  const place = placeOf(blocker, runId);
  return note([
    h("div", {}, h("span", { class: "strong" }, texts.codes[blocker.code] ?? blocker.code),
      texts.since, moment(blocker.since)),
    h("div", {}, sentence(blocker.message)),
    h("div", {}, sentence(blocker.hint), place && [" ", h("a", { href: place[1] }, place[0])],
      isFault(blocker) && [" · ", h("a", { href: runbookLink(blocker.code) }, texts.runbook)]),
  ], isFault(blocker) ? "warn" : "");
}

/** Where in the console one looks next. */
function placeOf({ code, submissionTarget }, runId) {
  switch (code) {
    case "TARGET_DOWN":
    case "TARGET_THROTTLED":
    case "TARGET_PAUSED":
      return [texts.viewTarget(submissionTarget), makeHash("targets", submissionTarget)];
    case "NO_WORKER":
      return [texts.viewWorkers, makeHash("workers")];
    case "DOUBTS_SETTLING":
    case "IN_DOUBT":
      return [texts.viewDoubts, makeHash("doubts", null, { runId })];
    case "DATABASE_DOWN":
    case "ENGINE_DOWN":
    case "DATABASE_RESTORED":
      return [texts.viewProblems, makeHash("trouble")];
    default:
      return null;
  }
}
