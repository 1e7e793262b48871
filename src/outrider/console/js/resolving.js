// Settling what is in doubt: a verdict, how one knows, and a question before it is final.

import { post, segment } from "./api.js";
import { h } from "./dom.js";
import { count, plural } from "./state/format.js";
import { field } from "./parts/controls.js";
import { ask } from "./parts/dialog.js";
import { note } from "./parts/feedback.js";

const VERDICTS = [
  ["sent", "It was sent", "The provider has it, or the recipient does."],
  ["failed", "It failed", "It never arrived; a later retry may send it."],
  ["resubmit", "Send it again", "Only where you know that it never arrived."],
];
const EVIDENCE_MOST = 4_000;
const COUNTED_MOST = 10_000;

export function resolveOne(item) {
  return ask({
    heading: `What became of ${item.recipientId}?`,
    content: form(item.reference),
    confirm: "Settle it",
    isDanger: true,
    act: (given) => post(`/doubts/${segment(item.outboxId)}/resolve`, verdictOf(given)),
  });
}

/** All that match, or the chosen ones: the server says first how many that is. */
export async function resolveMany(matching) {
  const asked = await post("/doubts/resolve",
    { ...matching, verdict: "failed", evidence: "counting", confirm: false });
  const isMore = asked.matching > COUNTED_MOST;
  return ask({
    heading: isMore ? `Settle more than ${count(COUNTED_MOST)} items at once?`
      : `Settle ${plural(asked.matching, "item")} at once?`,
    words: "The verdict is final for each of them, and is kept in the audit log.",
    content: form(null),
    confirm: isMore ? "Settle all" : `Settle ${count(asked.matching)}`,
    isDanger: true,
    // Once: what was sent again may come into doubt again, and nobody agreed to a third time.
    act: (given) => post("/doubts/resolve", { ...matching, ...verdictOf(given), confirm: true }),
  });
}

function form(reference) {
  return [
    h("fieldset", { class: "choices" },
      h("legend", {}, "Verdict"),
      VERDICTS.map(([verdict, words, hint]) =>
        h("label", { class: "check" },
          h("input", { type: "radio", name: "verdict", value: verdict, required: true }),
          h("span", {}, words, h("span", { class: "field-hint" }, ` · ${hint}`))))),
    field("How do you know?", { kind: "textarea", name: "evidence", required: true,
      maxlength: EVIDENCE_MOST, placeholder: "Found in the provider's export of today" }),
    reference && note(["Look for the reference ", h("code", { class: "breakable" }, reference),
      " at the provider."]),
  ];
}

function verdictOf(given) {
  return { verdict: given.get("verdict"), evidence: given.get("evidence").trim() };
}
