// What needs a look: alerts that stand, events the bus could not tell, and states that somebody
// wrote past the state machine.

import { get, post, segment } from "../api.js";
import { h, render } from "../dom.js";
import { count, plural, title } from "../state/format.js";
import { makeHash } from "../state/hash.js";
import { button, linkButton, tabs } from "../parts/controls.js";
import { copyableId } from "../parts/copying.js";
import { ask } from "../parts/dialog.js";
import { empty, failureToast, toast } from "../parts/feedback.js";
import { moment } from "../parts/moments.js";
import { pill } from "../parts/pill.js";
import { card, pager, table } from "../parts/table.js";

const ROWS = 50;
const LOADERS = { alerts: alertsTab, letters: lettersTab, bypasses: bypassesTab };

export async function show(context) {
  const { main, query, signal, frame } = context;
  frame.head({ title: "Trouble" });
  const found = await get("/trouble", {}, { signal });
  const shown = (number) => (number >= found.most ? `${count(found.most)}+` : count(number));
  const tab = Object.hasOwn(LOADERS, query.tab) ? query.tab : "alerts";
  const link = (name) => makeHash("trouble", null, { tab: name });
  const content = await LOADERS[tab](context, () => show(context), found);
  render(
    main,
    tabs("Trouble", [
      ["alerts", "Alerts", link("alerts"), shown(found.alerts)],
      ["letters", "Dead letters", link("letters"), shown(found.deadLetters)],
      ["bypasses", "Bypasses", link("bypasses"), shown(found.bypasses)],
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
      linkButton("Open", link({ all: null }), { look: all ? "small" : "small primary" }),
      linkButton("All", link({ all: "1" }), { look: all ? "small primary" : "small" })),
    card(null, page.items.length === 0 ? nothing
      : [table(path, columns, page.items, (row) => row.id),
        pager(plural(page.items.length, "row"), Boolean(query.after), link({}),
          page.next && link({ after: page.next }))]),
  ];
}

function alertsTab(context) {
  return listing(context, "/alerts", "standing", [
    { name: "Alert", kind: "name", of: (alert) => h("div", {},
      h("div", { class: "strong" }, title(alert.code.toLowerCase())),
      h("div", { class: "muted breakable" }, alert.message)) },
    { name: "Severity", of: (alert) => pill(alert.severity) },
    { name: "About", of: (alert) => copyableId(alert.subject, { what: "subject" }) },
    { name: "Times", kind: "number", of: (alert) => count(alert.times) },
    { name: "Raised", kind: "number", of: (alert) => moment(alert.raisedAt) },
    { name: "Seen last", kind: "number", of: (alert) => moment(alert.lastSeenAt) },
    { name: "Resolved", kind: "number", of: (alert) => moment(alert.resolvedAt) },
  ], empty("check", "No open alerts", "Alerts end by themselves when their cause does."));
}

async function lettersTab(context, again, { deadLetters }) {
  const canRedrive = context.frame.canOperate;
  const redrive = (letter) => post(`/bus/dead-letters/${segment(letter.id)}/redrive`)
    .then(again).catch(failureToast);
  const redriveAll = () => ask({
    heading: "Tell everything again?",
    words: "Every dead letter of this workspace is queued for its sink, as if never tried.",
    confirm: "Redrive all",
    act: () => post("/bus/dead-letters/redrive"),
  }).then((done) => {
    if (done) {
      toast(`${plural(done.redriven, "dead letter")} queued again.`);
      again();
    }
  });
  const shown = await listing(context, "/bus/dead-letters", "waiting", [
    { name: "Event", kind: "name", of: (letter) => h("div", {},
      h("div", { class: "strong" }, letter.eventType),
      h("div", { class: "muted small breakable" }, letter.error)) },
    { name: "Sink", of: (letter) => letter.sink },
    { name: "Run or item", of: (letter) => (letter.runId
      ? copyableId(letter.runId, { link: makeHash("runs", letter.runId), what: "run id" })
      : copyableId(letter.outboxId, { link: makeHash("items", letter.outboxId), what: "item id" })) },
    { name: "#", kind: "number", of: (letter) => letter.runSeq },
    { name: "Attempts", kind: "number", of: (letter) => count(letter.attempts) },
    { name: "Given up", kind: "number", of: (letter) => moment(letter.createdAt) },
    { name: "", kind: "actions", of: (letter) => (letter.redrivenAt
      ? ["Redriven ", moment(letter.redrivenAt)]
      : canRedrive && button("Redrive", { look: "small", onclick: () => redrive(letter) })) },
  ], empty("mail", "No dead letters",
    "Events that a sink could not be told after all attempts wait here to be told again."));
  context.frame.head({
    title: "Trouble",
    actions: canRedrive && deadLetters > 0 &&
      button("Redrive all", { sign: "retry", onclick: redriveAll }),
  });
  return shown;
}

function bypassesTab(context) {
  return listing(context, "/bypasses", null, [
    { name: "Campaign", of: (bypass) => copyableId(bypass.campaignId,
      { link: makeHash("campaigns", bypass.campaignId), what: "campaign id" }) },
    { name: "Phase", of: (bypass) => title(bypass.phase) },
    { name: "From", of: (bypass) => pill(bypass.fromStatus) },
    { name: "To", of: (bypass) => pill(bypass.toStatus) },
    { name: "By", kind: "name", of: (bypass) => h("div", {},
      h("div", {}, bypass.caller ?? "unknown"),
      h("div", { class: "muted small breakable" }, bypass.reason ?? "")) },
    { name: "When", kind: "number", of: (bypass) => moment(bypass.createdAt) },
  ], empty("check", "No state was written past the state machine",
    "A phase's state that changes without its event is recorded here, with who did it and why."));
}
