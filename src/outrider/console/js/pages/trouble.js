// What needs a look: alerts that stand, events the bus could not tell, and states that somebody
// wrote past the state machine.

import { get, post, segment } from "../api.js";
import { h, render } from "../dom.js";
import { runbookLink } from "../state/blockers.js";
import { count, plural, title } from "../state/format.js";
import { makeHash } from "../state/hash.js";
import { button, linkButton, tabs } from "../parts/controls.js";
import { copyableId } from "../parts/copying.js";
import { ask } from "../parts/dialog.js";
import { empty, failureToast, toast } from "../parts/feedback.js";
import { moment } from "../parts/timestamps.js";
import { pill } from "../parts/pill.js";
import { card, pager, table } from "../parts/table.js";
import { trouble as texts } from "../texts/operations.js";

const ROWS = 50;
const LOADERS = { alerts: alertsTab, letters: lettersTab, bypasses: bypassesTab };

export async function show(context) {
  const { main, query, signal, frame } = context;
  frame.head({ title: texts.problems });
  const found = await get("/trouble", {}, { signal });
  const shown = (number) => (number >= found.most ? `${count(found.most)}+` : count(number));
  const tab = Object.hasOwn(LOADERS, query.tab) ? query.tab : "alerts";
  const link = (name) => makeHash("trouble", null, { tab: name });
  const content = await LOADERS[tab](context, () => show(context), found);
  render(
    main,
    tabs(texts.problems, [
      ["alerts", texts.alerts, link("alerts"), shown(found.alerts)],
      ["letters", texts.deadLetters, link("letters"), shown(found.deadLetters)],
      ["bypasses", texts.bypasses, link("bypasses"), shown(found.bypasses)],
    ], tab),
    content,
  );
}

/** A page of one kind, what stands by default, or all of it. */
async function listing({ query, signal }, path, onlyOpen, columns, nothing) {
  const all = query.all === "1";
  const asked = { after: query.after, limit: ROWS, ...(onlyOpen && !all && { [onlyOpen]: true }) };
  const page = await get(path, asked, { signal });
  const link = (change) => makeHash("trouble", null, { ...query, after: null, ...change });
  return [
    onlyOpen && h("div", { class: "filters" },
      linkButton(texts.open, link({ all: null }), { look: all ? "small" : "small primary" }),
      linkButton(texts.all, link({ all: "1" }), { look: all ? "small primary" : "small" })),
    card(null, page.items.length === 0 ? nothing
      : [table(path, columns, page.items, (row) => row.id),
        pager(plural(page.items.length, "row"), Boolean(query.after), link({}),
          page.next && link({ after: page.next }))]),
  ];
}

function alertsTab(context) {
  return listing(context, "/alerts", "standing", [
    { name: texts.alert, kind: "name", of: (alert) => h("div", {},
      h("div", { class: "strong" }, title(alert.code.toLowerCase())),
      h("div", { class: "muted breakable" }, alert.message),
      h("a", { class: "small", href: runbookLink(alert.code) }, texts.runbook)) },
    { name: texts.severity, of: (alert) => pill(alert.severity) },
    { name: texts.about, of: (alert) => copyableId(alert.subject, { what: "subject" }) },
    { name: texts.times, kind: "number", of: (alert) => count(alert.times) },
    { name: texts.raised, kind: "number", of: (alert) => moment(alert.raisedAt) },
    { name: texts.lastSeen, kind: "number", of: (alert) => moment(alert.lastSeenAt) },
    { name: texts.resolved, kind: "number", of: (alert) => moment(alert.resolvedAt) },
  ], empty("check", texts.noOpenAlerts, texts.noOpenAlertsHint));
}

async function lettersTab(context, again, { deadLetters }) {
  const canRedrive = context.frame.canOperate;
  const redrive = (letter) => post(`/bus/dead-letters/${segment(letter.id)}/redrive`)
    .then(again).catch(failureToast);
  const redriveAll = () => ask({
    heading: texts.redriveAllHeading,
    words: texts.redriveAllHint,
    confirm: texts.redriveAll,
    act: () => post("/bus/dead-letters/redrive"),
  }).then((done) => {
    if (done) {
      toast(texts.queuedAgain(plural(done.redriven, "dead letter")));
      again();
    }
  });
  const shown = await listing(context, "/bus/dead-letters", "waiting", [
    { name: texts.event, kind: "name", of: (letter) => h("div", {},
      h("div", { class: "strong" }, letter.eventType),
      h("div", { class: "muted small breakable" }, letter.error)) },
    { name: texts.sink, of: (letter) => letter.sink },
    { name: texts.runOrItem, of: (letter) => (letter.runId
      ? copyableId(letter.runId, { link: makeHash("runs", letter.runId), what: texts.runId })
      : copyableId(letter.outboxId,
        { link: makeHash("items", letter.outboxId), what: texts.itemId })) },
    { name: "#", kind: "number", of: (letter) => letter.runSeq },
    { name: texts.attempts, kind: "number", of: (letter) => count(letter.attempts) },
    { name: texts.givenUp, kind: "number", of: (letter) => moment(letter.createdAt) },
    { name: "", kind: "actions", of: (letter) => (letter.redrivenAt
      ? [texts.redriven, moment(letter.redrivenAt)]
      : canRedrive && button(texts.redrive, { look: "small", onclick: () => redrive(letter) })) },
  ], empty("mail", texts.noDeadLetters,
    texts.noDeadLettersHint));
  context.frame.head({
    title: texts.problems,
    actions: canRedrive && deadLetters > 0 &&
      button(texts.redriveAll, { sign: "retry", onclick: redriveAll }),
  });
  return shown;
}

function bypassesTab(context) {
  return listing(context, "/bypasses", null, [
    { name: texts.campaign, of: (bypass) => copyableId(bypass.campaignId,
      { link: makeHash("campaigns", bypass.campaignId), what: texts.campaignId }) },
    { name: texts.phase, of: (bypass) => title(bypass.phase) },
    { name: texts.from, of: (bypass) => pill(bypass.fromStatus) },
    { name: texts.to, of: (bypass) => pill(bypass.toStatus) },
    { name: texts.by, kind: "name", of: (bypass) => h("div", {},
      h("div", {}, bypass.caller ?? "unknown"),
      h("div", { class: "muted small breakable" }, bypass.reason ?? "")) },
    { name: texts.when, kind: "number", of: (bypass) => moment(bypass.createdAt) },
  ], empty("check", texts.noBypasses,
    texts.noBypassesHint));
}
