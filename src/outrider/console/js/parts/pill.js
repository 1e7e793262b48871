// A state as a word with a sign: recognisable without colour too.

import { h } from "../dom.js";
import { title } from "../state/format.js";
import { icon } from "./icons.js";
import { pill as texts } from "../texts/parts.js";

const LOOKS = {
  good: ["completed", "sent", "called", "posted", "success", "accepted", "closed", "routed",
    "delivered", "read", "replied", "succeeded", "done"],
  active: ["in_progress", "running", "locked", "approved", "steps", "probing", "processing",
    "sending"],
  warn: ["paused", "in_doubt", "partial", "warning", "pending_approval", "delayed"],
  bad: ["failed", "dead", "rejected", "exhausted", "open", "critical", "error",
    "revoked", "bounced", "complained"],
  quiet: ["holding", "skipped", "suppressed", "stopped", "cancelled", "scheduled",
    "opted_out"],
};
const SIGNS = { good: "check", active: "half", warn: "pause", bad: "cross", quiet: "dash" };
const OWN_SIGNS = { in_doubt: "doubt", stopped: "stop", cancelled: "stop", scheduled: "clock", holding: "clock",
  partial: "half", warning: "trouble", critical: "trouble" };
const OWN_WORDS = { in_progress: texts.inProgress, not_started: texts.notStarted,
  in_doubt: texts.inDoubt };

export function pill(state, { words, isGuess = false } = {}) {
  const name = String(state).toLowerCase();
  const look = Object.keys(LOOKS).find((each) => LOOKS[each].includes(name));
  const sign = OWN_SIGNS[name] ?? SIGNS[look] ?? "circle";
  return h(
    "span",
    {
      class: `pill ${look ? `pill-${look}` : ""} ${isGuess ? "pill-guess" : ""}`,
      "data-state": name,
      title: isGuess ? texts.guess : null,
    },
    icon(sign, 13),
    words ?? OWN_WORDS[name] ?? title(name),
  );
}

export function tag(text) {
  return h("span", { class: "tag" }, text);
}
