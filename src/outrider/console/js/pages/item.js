// One ledger item: its attempts, and why it was or was not sent, in sentences.

import { get, segment } from "../api.js";
import { h, render } from "../dom.js";
import { title } from "../state/format.js";
import { makeHash } from "../state/hash.js";
import { resolveOne } from "../resolving.js";
import { button } from "../parts/controls.js";
import { copyableId } from "../parts/copying.js";
import { empty, note } from "../parts/feedback.js";
import { exactMoment, moment, span } from "../parts/moments.js";
import { pill, tag } from "../parts/pill.js";
import { card, facts, sentences } from "../parts/table.js";

export async function show(context) {
  const { main, id, signal, frame } = context;
  const [item, explained] = await Promise.all([
    get(`/outbox/${segment(id)}`, {}, { signal }),
    get(`/outbox/${segment(id)}/explain`, {}, { signal }),
  ]);
  const state = item.inDoubt ? "in_doubt" : item.status;
  frame.head({
    title: item.recipientId,
    crumbs: [["Campaigns", "#/campaigns"],
      ...(item.runId ? [["Run", makeHash("runs", item.runId, { tab: "items" })]] : [])],
    beside: pill(state),
    under: copyableId(item.outboxId, { whole: true, what: "item id" }),
    actions: item.inDoubt && frame.canOperate && button("Resolve", {
      look: "primary",
      onclick: async () => {
        if (await resolveOne(item)) {
          await show(context);
          frame.countTrouble();
        }
      },
    }),
  });
  render(
    main,
    h(
      "div",
      { class: "stack" },
      item.inDoubt && note("Whether this arrived is not known. It is never sent again silently: "
        + "evidence or a person settles it.", "warn"),
      h(
        "div",
        { class: "columns" },
        card("What happened", h("div", { class: "card-body" }, sentences(explained.sentences))),
        card("Item", h("div", { class: "card-body" }, itemFacts(item))),
      ),
      card("Attempts", item.attempts.length === 0
        ? empty("clock", "No attempt was opened", "No provider was called for this item.")
        : h("ol", {}, item.attempts.map(attemptRow))),
    ),
  );
}

function itemFacts(item) {
  return facts(
    ["Address", item.address],
    ["Channel", tag(item.channel)],
    ["Target", item.submissionTarget],
    ["Provider", item.provider],
    ["Judged", item.intentStatus && title(item.intentStatus.toLowerCase())],
    item.exhaustedReason && ["Exhausted by", item.exhaustedReason],
    item.reason && ["Reason", item.reason],
    item.error && ["Error", item.error],
    item.subject && ["Subject", item.subject],
    item.nextAttemptAt && ["Next attempt", moment(item.nextAttemptAt)],
    item.waitsFor && ["Waits for", item.waitsFor],
    ["Created", exactMoment(item.createdAt)],
    ["Updated", exactMoment(item.updatedAt)],
    ["Reference", copyableId(item.reference, { what: "reference" })],
    item.providerMessageId && ["Provider's id",
      copyableId(item.providerMessageId, { whole: true, what: "provider's id" })],
  );
}

function attemptRow(attempt) {
  const state = attempt.closedAt === null ? "in_doubt" : attempt.outcome ?? "closed";
  return h(
    "li",
    { class: "attempt" },
    h("span", { class: "stage-number" }, attempt.number),
    h(
      "div",
      { class: "stack tight" },
      h("div", { class: "button-row" },
        pill(state, { words: attempt.closedAt === null ? "Open: outcome unknown" : null }),
        attempt.repeat > 0 && tag(`repeat ${attempt.repeat}`),
        attempt.reason && h("span", { class: "breakable" }, attempt.reason),
        attempt.progress && tag(attempt.progress.toLowerCase().replaceAll("_", " "))),
      h("div", { class: "muted small" }, "Opened ", exactMoment(attempt.openedAt),
        attempt.closedAt && [" · took ", span(attempt.openedAt, attempt.closedAt)]),
      attempt.error && h("pre", {}, attempt.error),
      attempt.providerMessageId && h("div", { class: "small" }, "Provider's id ",
        copyableId(attempt.providerMessageId, { whole: true, what: "provider's id" })),
    ),
  );
}
