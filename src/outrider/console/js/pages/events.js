// Domain events: what arrived, what became of it by which route and why, and its messages.

import { get, post, segment } from "../api.js";
import { watchBlockers } from "../blocker_watch.js";
import { h, render } from "../dom.js";
import { besides } from "../state/blockers.js";
import { count, plural, title } from "../state/format.js";
import { makeHash } from "../state/hash.js";
import { blockerNotes } from "../parts/blockers.js";
import { button, linkButton } from "../parts/controls.js";
import { copyableId } from "../parts/copying.js";
import { empty, failureToast, note, toast } from "../parts/feedback.js";
import { exactMoment, moment } from "../parts/timestamps.js";
import { pill, tag } from "../parts/pill.js";
import { card, facts, pager, sentences, table } from "../parts/table.js";
import { reasonWords } from "../parts/words.js";
import { events as texts } from "../texts/workflows.js";

const ROWS = 50;
const STATUSES = [[null, texts.all], ["received", texts.received], ["routed", texts.routed],
  ["failed", texts.failed]];

export function show(context) {
  return context.id === null ? list(context) : one(context);
}

async function list({ main, query, signal, frame }) {
  frame.head({ title: texts.events, under: texts.about });
  const asked = { status: query.status, trigger: query.trigger, after: query.after, limit: ROWS };
  const page = await get("/events", asked, { signal });
  const link = (change) => makeHash("events", null, { ...query, after: null, ...change });
  const isFiltered = Boolean(query.status || query.trigger);
  render(
    main,
    h("div", { class: "filters" }, STATUSES.map(([status, words]) => linkButton(words,
      link({ status }), { look: (query.status ?? null) === status ? "small primary" : "small",
        "aria-current": (query.status ?? null) === status ? "true" : null })),
    query.trigger && linkButton(texts.allTriggers, link({ trigger: null }), { look: "small" })),
    card(null, page.items.length === 0
      ? empty("events", isFiltered ? texts.noMatch : texts.noEvents, texts.noEventsHint,
        isFiltered && linkButton(texts.showAll, "#/events"))
      : [table(texts.events, columns(link), page.items, (event) => event.eventId),
        pager(plural(page.items.length, "event"), Boolean(query.after), link({}),
          page.next && link({ after: page.next }))]),
  );
}

function columns(link) {
  return [
    { name: texts.event, kind: "name", of: (event) => h("a",
      { class: "strong breakable", href: makeHash("events", event.eventId) }, event.eventId) },
    { name: texts.trigger, of: (event) => h("a", { href: link({ trigger: event.trigger }) },
      event.trigger) },
    { name: texts.status, of: (event) => pill(event.status) },
    { name: texts.messages, kind: "number", of: (event) =>
      count(event.routes.reduce((sum, route) => sum + (route.items ?? 0), 0)) },
    { name: texts.why, kind: "name", of: (event) => h("div", { class: "small reading" },
      event.error ?? event.routes.map((route) => route.why).filter(Boolean).join("; ")) },
    { name: texts.when, kind: "number", of: (event) => moment(event.createdAt) },
  ];
}

/** Drawn again until it is routed, and while something holds it or its messages up. */
async function one(context) {
  let isWaiting = await draw(context);
  watchBlockers({
    signal: context.signal,
    isWanted: () => isWaiting,
    look: async () => {
      isWaiting = await draw(context);
    },
  });
}

/** Whether it may still change by itself. */
async function draw(context) {
  const { main, id, signal, frame } = context;
  const [event, explained] = await Promise.all([
    get(`/events/${segment(id)}`, {}, { signal }),
    get(`/events/${segment(id)}/explain`, {}, { signal }),
  ]);
  const canReroute = event.status === "failed" && frame.canOperate;
  frame.head({
    title: event.eventId,
    crumbs: [[texts.events, "#/events"]],
    beside: [pill(event.status), tag(event.trigger)],
    actions: canReroute && button(texts.reroute, { sign: "retry", look: "primary",
      onclick: () => reroute(context) }),
  });
  render(
    main,
    h(
      "div",
      { class: "stack" },
      event.error && note(event.error, "bad"),
      blockerNotes(explained.blockers),
      h(
        "div",
        { class: "columns" },
        card(texts.whatHappened, h("div", { class: "card-body" }, sentences(besides(explained)))),
        card(texts.event, h("div", { class: "card-body stack" },
          facts([texts.trigger, event.trigger], [texts.occurred, exactMoment(event.occurredAt)],
            [texts.received, exactMoment(event.createdAt)],
            [texts.updated, exactMoment(event.updatedAt)]),
          contents(texts.subject, event.subject), contents(texts.variables, event.variables))),
      ),
      card(texts.routes, event.routes.length === 0
        ? empty("workflows", texts.noRoutes, texts.noRoutesHint)
        : table(texts.routes, ROUTE_COLUMNS, event.routes,
          (route) => `${route.channel} ${route.audience} ${route.sender ?? ""}`)),
      card(texts.messages, event.items.length === 0
        ? empty("mail", texts.noMessages, texts.noMessagesHint)
        : table(texts.messages, ITEM_COLUMNS, event.items, (item) => item.outboxId)),
    ),
  );
  return event.status === "received" || explained.blockers.length > 0;
}

function contents(name, value) {
  return Object.keys(value).length > 0 && h("details", {},
    h("summary", { class: "small" }, name), h("pre", {}, JSON.stringify(value, null, 2)));
}

async function reroute(context) {
  try {
    await post(`/events/${segment(context.id)}/reroute`);
    toast(texts.rerouted);
    await draw(context);
    context.frame.countTrouble();
  } catch (error) {
    failureToast(error);
  }
}

const ROUTE_COLUMNS = [
  { name: texts.channel, of: (route) => tag(route.channel) },
  { name: texts.audience, of: (route) => title(route.audience) },
  { name: texts.decision, of: (route) => pill(route.decision) },
  { name: texts.by, of: (route) => (route.ruleId
    ? copyableId(route.ruleId, { link: makeHash("workflows", route.ruleId), what: texts.ruleId })
    : route.sender ?? "–") },
  { name: texts.messages, kind: "number", of: (route) => count(route.items ?? 0) },
  { name: texts.why, kind: "name", of: (route) => h("div", { class: "small reading" },
    [route.why, route.collected && texts.collected(count(route.collected)),
      route.withoutAddress?.length > 0 && texts.withoutAddress(route.withoutAddress.join(", "))]
      .filter(Boolean).join("; ")) },
];

const ITEM_COLUMNS = [
  { name: texts.recipient, kind: "name", of: (item) => h("a",
    { class: "strong breakable", href: makeHash("items", item.outboxId) }, item.recipientId) },
  { name: texts.address, kind: "name", of: (item) => (item.address
    ? h("a", { class: "breakable", href: makeHash("people", item.address) }, item.address)
    : "–") },
  { name: texts.channel, of: (item) => tag(item.channel) },
  { name: texts.status, of: (item) => pill(item.status) },
  { name: texts.why, kind: "name", of: (item) => h("div", { class: "small reading" },
    item.reason ? reasonWords(item.reason) : item.waitsFor ?? "") },
  { name: texts.next, kind: "number", of: (item) => moment(item.nextAttemptAt) },
];
