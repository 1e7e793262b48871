// One ledger item: its attempts, and why it was or was not sent, in sentences.

import { get, segment } from "../api.js";
import { watchBlockers } from "../blocker_watch.js";
import { h, render } from "../dom.js";
import { besides } from "../state/blockers.js";
import { deliveryName } from "../state/delivery.js";
import { title } from "../state/format.js";
import { makeHash } from "../state/hash.js";
import { resolveOne } from "../resolving.js";
import { blockerNotes } from "../parts/blockers.js";
import { button } from "../parts/controls.js";
import { copyableId } from "../parts/copying.js";
import { empty } from "../parts/feedback.js";
import { exactMoment, moment, span } from "../parts/timestamps.js";
import { pill, tag } from "../parts/pill.js";
import { card, facts, sentences } from "../parts/table.js";
import { attemptWords } from "../parts/words.js";
import { item as texts } from "../texts/runs.js";

/** Drawn again while it waits for something, which ends without an event. */
export async function show(context) {
  let isQueued = await draw(context);
  watchBlockers({
    signal: context.signal,
    isWanted: () => isQueued,
    look: async () => {
      isQueued = await draw(context);
    },
  });
}

/** Whether it may still change by itself. */
async function draw(context) {
  const { main, id, signal, frame } = context;
  const [item, explained] = await Promise.all([
    get(`/outbox/${segment(id)}`, {}, { signal }),
    get(`/outbox/${segment(id)}/explain`, {}, { signal }),
  ]);
  const state = item.inDoubt ? "in_doubt" : item.status;
  frame.head({
    title: item.recipientId,
    crumbs: [[texts.campaigns, "#/campaigns"],
      ...(item.runId ? [[texts.run, makeHash("runs", item.runId, { tab: "items" })]] : [])],
    beside: pill(state),
    under: copyableId(item.outboxId, { whole: true, what: texts.itemId }),
    actions: item.inDoubt && frame.canOperate && button(texts.resolve, {
      look: "primary",
      onclick: async () => {
        if (await resolveOne(item)) {
          await draw(context);
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
      blockerNotes(explained.blockers),
      h(
        "div",
        { class: "columns" },
        card(texts.whatHappened, h("div", { class: "card-body" }, sentences(besides(explained)))),
        card(texts.item, h("div", { class: "card-body" }, itemFacts(item))),
      ),
      card(texts.attempts, item.attempts.length === 0
        ? empty("clock", texts.noAttempts, texts.noAttemptsHint)
        : h("ol", {}, item.attempts.map(attemptRow))),
    ),
  );
  return item.status === "queued";
}

function itemFacts(item) {
  return facts(
    [texts.address, item.address && h("a", { class: "breakable",
      href: makeHash("people", item.address) }, item.address)],
    [texts.channel, tag(item.channel)],
    [texts.target, item.submissionTarget],
    [texts.provider, item.provider],
    [texts.intentStatus, item.intentStatus && title(item.intentStatus.toLowerCase())],
    item.exhaustedReason && [texts.exhaustedReason, item.exhaustedReason],
    item.reason && [texts.reason, item.reason],
    item.error && [texts.error, item.error],
    item.subject && [texts.subject, item.subject],
    item.nextAttemptAt && [texts.nextAttempt, moment(item.nextAttemptAt)],
    item.waitsFor && [texts.waitsFor, item.waitsFor],
    item.contractAttempt > 0 && [texts.attempts, attemptWords(item)],
    [texts.created, exactMoment(item.createdAt)],
    [texts.updated, exactMoment(item.updatedAt)],
    [texts.reference, copyableId(item.reference, { what: texts.referenceToCopy })],
    item.providerMessageId && [texts.providerId,
      copyableId(item.providerMessageId, { whole: true, what: texts.providerIdToCopy })],
    ...deliveryFacts(item.delivery),
  );
}

/** What the provider reported afterwards, if it did. */
function deliveryFacts({ state, permanent, reason, at }) {
  if (state === "none") {
    return [];
  }
  const name = deliveryName(state);
  return [
    [texts.delivery, pill(state, { words: permanent ? texts.forGood(name) : name })],
    [texts.reportedAt, exactMoment(at)],
    reason && [texts.deliveryReason, reason],
  ];
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
        pill(state, { words: attempt.closedAt === null ? texts.openAttempt : null }),
        attempt.repeat > 0 && tag(texts.repeat(attempt.repeat)),
        attempt.reason && h("span", { class: "breakable" }, attempt.reason),
        attempt.progress && tag(attempt.progress.toLowerCase().replaceAll("_", " "))),
      h("div", { class: "muted small" }, texts.opened, exactMoment(attempt.openedAt),
        attempt.closedAt && [texts.took, span(attempt.openedAt, attempt.closedAt)]),
      attempt.error && h("pre", {}, attempt.error),
      attempt.providerMessageId && h("div", { class: "small" }, texts.providerIdBefore,
        copyableId(attempt.providerMessageId, { whole: true, what: texts.providerIdToCopy })),
    ),
  );
}
