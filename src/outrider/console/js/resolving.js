// Settling what is in doubt: a verdict, how one knows, and a question before it is final.

import { post, segment } from "./api.js";
import { h } from "./dom.js";
import { count, plural } from "./state/format.js";
import { field } from "./parts/controls.js";
import { ask } from "./parts/dialog.js";
import { note } from "./parts/feedback.js";
import { resolving as texts } from "./texts/doubts.js";

const VERDICTS = [
  ["sent", texts.sent, texts.sentHint],
  ["failed", texts.failed, texts.failedHint],
  ["resubmit", texts.sendAgain, texts.sendAgainHint],
];
const EVIDENCE_MOST = 4_000;
const COUNTED_MOST = 10_000;

export function resolveOne(item) {
  return ask({
    heading: texts.heading(item.recipientId),
    content: form(item.reference),
    confirm: texts.resolve,
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
    heading: isMore ? texts.resolveMoreThan(count(COUNTED_MOST))
      : texts.resolveAtOnce(plural(asked.matching, "item")),
    words: texts.verdictHint,
    content: form(null),
    confirm: isMore ? texts.resolveAll : texts.resolveCount(count(asked.matching)),
    isDanger: true,
    // Once: what was sent again may come into doubt again, and nobody agreed to a third time.
    act: (given) => post("/doubts/resolve", { ...matching, ...verdictOf(given), confirm: true }),
  });
}

function form(reference) {
  return [
    h("fieldset", { class: "choices" },
      h("legend", {}, texts.verdict),
      VERDICTS.map(([verdict, words, hint]) =>
        h("label", { class: "check" },
          h("input", { type: "radio", name: "verdict", value: verdict, required: true }),
          h("span", {}, words, h("span", { class: "field-hint" }, ` · ${hint}`))))),
    field(texts.evidence, { kind: "textarea", name: "evidence", required: true,
      maxlength: EVIDENCE_MOST, placeholder: texts.evidenceExample }),
    reference && note([texts.lookUp, h("code", { class: "breakable" }, reference),
      texts.atProvider]),
  ];
}

function verdictOf(given) {
  return { verdict: given.get("verdict"), evidence: given.get("evidence").trim() };
}
