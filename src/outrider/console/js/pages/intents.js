// Single messages that programs submitted: where each stands, and one of them with its attempts.

import { get, post, segment } from "../api.js";
import { watchBlockers } from "../blocker_watch.js";
import { h, render } from "../dom.js";
import { besides } from "../state/blockers.js";
import { deliveryName } from "../state/delivery.js";
import { plural } from "../state/format.js";
import { makeHash } from "../state/hash.js";
import { blockerNotes } from "../parts/blockers.js";
import { button, linkButton } from "../parts/controls.js";
import { copyableId } from "../parts/copying.js";
import { ask } from "../parts/dialog.js";
import { empty } from "../parts/feedback.js";
import { exactMoment, moment, span } from "../parts/timestamps.js";
import { pill, tag } from "../parts/pill.js";
import { card, facts, pager, sentences, table } from "../parts/table.js";
import { attemptWords, reasonWords } from "../parts/words.js";
import { intents as texts } from "../texts/workflows.js";

const ROWS = 50;
const STATUSES = [[null, texts.all], ["PENDING", texts.pending], ["ACCEPTED", texts.accepted],
  ["REJECTED", texts.rejected], ["EXHAUSTED", texts.exhausted]];

export function show(context) {
  return context.id === null ? list(context) : one(context);
}

async function list({ main, query, signal, frame }) {
  frame.head({ title: texts.intents, under: texts.about });
  const asked = { status: query.status, submissionTarget: query.target, after: query.after,
    limit: ROWS };
  const page = await get("/intents", asked, { signal });
  const link = (change) => makeHash("intents", null, { ...query, after: null, ...change });
  const isFiltered = Boolean(query.status || query.target);
  render(
    main,
    h("div", { class: "filters" }, STATUSES.map(([status, words]) => linkButton(words,
      link({ status }), { look: (query.status ?? null) === status ? "small primary" : "small",
        "aria-current": (query.status ?? null) === status ? "true" : null })),
    query.target && linkButton(texts.allTargets, link({ target: null }), { look: "small" })),
    card(null, page.items.length === 0 && !page.next
      ? empty("intents", isFiltered ? texts.noMatch : texts.noIntents, texts.noIntentsHint,
        isFiltered && linkButton(texts.showAll, "#/intents"))
      : [table(texts.intents, columns(link), page.items, (intent) => intent.intentId),
        pager(plural(page.items.length, "intent"), Boolean(query.after), link({}),
          page.next && link({ after: page.next }))]),
  );
}

function columns(link) {
  return [
    { name: texts.intent, kind: "name", of: (intent) => h("a",
      { class: "strong breakable", href: makeHash("intents", intent.intentId) },
      intent.intentId) },
    { name: texts.target, of: (intent) => h("a",
      { href: link({ target: intent.submissionTarget }) }, intent.submissionTarget) },
    { name: texts.status, of: (intent) => pill(intent.inDoubt ? "in_doubt" : intent.status) },
    { name: texts.why, kind: "name", of: (intent) => h("span", { class: "small breakable" },
      reasonWords(intent.exhaustedReason ?? intent.reason ?? "")) },
    { name: texts.attempts, kind: "number", of: (intent) => attemptWords(intent) },
    { name: texts.submitted, kind: "number", of: (intent) => moment(intent.createdAt) },
    { name: texts.updated, kind: "number", of: (intent) => moment(intent.updatedAt) },
  ];
}

/** Drawn again while it waits for something, which ends without an event. */
async function one(context) {
  let isPending = await draw(context);
  watchBlockers({
    signal: context.signal,
    isWanted: () => isPending,
    look: async () => {
      isPending = await draw(context);
    },
  });
}

/** Whether it may still change by itself. */
async function draw({ main, id, signal, frame }) {
  const intent = await get(`/intents/${segment(id)}`, {}, { signal });
  const explained = await get(`/outbox/${segment(intent.outboxId)}/explain`, {}, { signal });
  frame.head({
    title: intent.intentId,
    crumbs: [[texts.intents, "#/intents"]],
    beside: pill(intent.inDoubt ? "in_doubt" : intent.status),
    actions: frame.canOperate && mayGoAgain(intent)
      ? [button(texts.sendAgain, { onclick: () => sendAgain(intent) })] : [],
    under: [texts.item, copyableId(intent.outboxId,
      { link: makeHash("items", intent.outboxId), what: texts.itemId })],
  });
  render(
    main,
    h(
      "div",
      { class: "stack" },
      blockerNotes(intent.blockers),
      h(
        "div",
        { class: "columns" },
        card(texts.whatHappened, h("div", { class: "card-body" }, sentences(besides(explained)))),
        card(texts.intent, h("div", { class: "card-body stack" }, intentFacts(intent),
          h("details", {}, h("summary", { class: "small" }, texts.payload),
            h("pre", {}, JSON.stringify(intent.payload, null, 2))))),
      ),
      card(texts.attempts, intent.attempts.length === 0
        ? empty("clock", texts.noAttempts, texts.noAttemptsHint)
        : table(texts.attempts, ATTEMPT_COLUMNS, intent.attempts,
          (attempt) => `${attempt.number} ${attempt.openedAt}`)),
    ),
  );
  return intent.status === "PENDING";
}

/** One that ended unsent, and has not been sent again; a doubt is settled instead. */
function mayGoAgain(intent) {
  const hasEnded = intent.status === "EXHAUSTED" || intent.status === "REJECTED";
  return hasEnded && !intent.inDoubt && !intent.resubmittedAs;
}

async function sendAgain(intent) {
  const made = await ask({
    heading: texts.sendAgainQuestion,
    words: texts.sendAgainWords,
    confirm: texts.sendAgain,
    act: () => post(`/intents/${segment(intent.intentId)}/resubmit`),
  });
  if (made) {
    location.hash = makeHash("intents", made.intentId);
  }
}

function intentFacts(intent) {
  const to = intent.payload.to ?? intent.payload.token;
  return facts(
    typeof to === "string" && [texts.to, h("a", { class: "breakable",
      href: makeHash("people", to) }, to)],
    [texts.target, intent.submissionTarget],
    intent.finalOutcome && [texts.outcome, reasonWords(intent.finalOutcome)],
    intent.exhaustedReason && [texts.exhausted, reasonWords(intent.exhaustedReason)],
    intent.reason && [texts.why, reasonWords(intent.reason)],
    intent.error && [texts.error, h("span", { class: "breakable" }, intent.error)],
    intent.waitsFor && [texts.waitsFor, intent.waitsFor],
    intent.topic && [texts.topic, tag(intent.topic)],
    intent.callbackUrl && [texts.callback, h("code", { class: "breakable" }, intent.callbackUrl)],
    intent.delivery.state !== "none" && [texts.delivery, pill(intent.delivery.state,
      { words: deliveryName(intent.delivery.state) })],
    intent.resubmits && [texts.resubmits, h("a", { class: "breakable",
      href: makeHash("intents", intent.resubmits) }, intent.resubmits)],
    intent.resubmittedAs && [texts.resubmittedAs, h("a", { class: "breakable",
      href: makeHash("intents", intent.resubmittedAs) }, intent.resubmittedAs)],
    [texts.submitted, exactMoment(intent.createdAt)],
  );
}

const ATTEMPT_COLUMNS = [
  { name: texts.attempt, kind: "number", of: (attempt) => attempt.number },
  { name: texts.status, of: (attempt) => (attempt.outcome ? pill(attempt.outcome)
    : pill("in_progress", { words: texts.open })) },
  { name: texts.why, kind: "name", of: (attempt) => h("span", { class: "small breakable" },
    [attempt.reason && reasonWords(attempt.reason), attempt.error].filter(Boolean).join(": ")) },
  { name: texts.opened, kind: "number", of: (attempt) => moment(attempt.openedAt) },
  { name: texts.took, kind: "number", of: (attempt) => (attempt.closedAt
    ? span(attempt.openedAt, attempt.closedAt) : "–") },
];
