// A run's log, jobs, items and certificate, each a page of rows at a time. What is fetched once is
// given as a function that draws it, since the page around it is drawn again and again.

import { get, segment } from "../api.js";
import { h } from "../dom.js";
import { count, plural, title } from "../state/format.js";
import { makeHash } from "../state/hash.js";
import { button, linkButton } from "../parts/controls.js";
import { copyableId } from "../parts/copying.js";
import { empty, failureToast, note } from "../parts/feedback.js";
import { icon } from "../parts/icons.js";
import { clockTime, exactMoment, moment } from "../parts/moments.js";
import { pill, tag } from "../parts/pill.js";
import { card, pager, sentences, table } from "../parts/table.js";

const ROWS = 50;
const STATUSES = ["queued", "sent", "called", "posted", "failed", "skipped"];

export function logTab(log) {
  const { events, stale } = log.view;
  const newestFirst = [...events].reverse();
  return card(
    null,
    [
      stale && h("div", { class: "card-body" },
        note("Events are missing in between: catching up.")),
      events.length === 0
        ? empty("clock", "Nothing was logged yet", "Events appear when the run is approved.")
        : table("Event log", LOG_COLUMNS, newestFirst, (event) => String(event.runSeq)),
      log.beginsAt > 1 && h("div", { class: "pager" }, `Shown from #${log.beginsAt}`,
        button("Show earlier", {
          look: "small",
          onclick: () => log.showEarlier().catch(failureToast),
        })),
    ],
  );
}

const LOG_COLUMNS = [
  { name: "#", kind: "number", of: (event) => event.runSeq },
  { name: "Time", of: (event) => clockTime(event.occurredAt) },
  { name: "Event", of: (event) => h("span", { class: "strong" }, event.eventType) },
  { name: "Step", of: (event) => (event.stepId ? copyableId(event.stepId) : "") },
  { name: "Try", kind: "number", of: (event) => event.logicalAttemptId },
  { name: "Engine", kind: "number", of: (event) => event.engineAttemptId ?? "" },
  { name: "Said by", of: (event) => event.emittedBy },
  {
    name: "Payload",
    kind: "name",
    of: (event) => (Object.keys(event.payload).length === 0 ? ""
      : h("details", {}, h("summary", { class: "muted small" },
        plural(Object.keys(event.payload).length, "field")),
      h("pre", {}, JSON.stringify(event.payload, null, 2)))),
  },
];

export async function jobsTab({ id, query, signal }) {
  const page = await get(`/runs/${segment(id)}/jobs`, { limit: ROWS, after: query.after },
    { signal });
  const link = (after) => makeHash("runs", id, { ...query, after });
  return () => card(
    null,
    page.items.length === 0
      ? empty("clock", "No jobs yet", "A run's plan makes them when it begins.")
      : [table("Jobs", JOB_COLUMNS, page.items, (job) => job.jobId),
        pager(plural(page.items.length, "job"), Boolean(query.after), link(null),
          page.next && link(page.next))],
  );
}

const JOB_COLUMNS = [
  { name: "Job", of: (job) => copyableId(job.jobId, { what: "job id" }) },
  { name: "Kind", of: (job) => title(job.jobType) },
  { name: "Target", of: (job) => job.submissionTarget },
  { name: "Status", of: (job) => [pill(job.status), job.paused && tag("paused"),
    job.cancelled && tag("cancelled")] },
  { name: "Items", kind: "number", of: (job) => count(job.items) },
  { name: "Succeeded", kind: "number", of: (job) => count(job.sent) },
  { name: "Failed", kind: "number", of: (job) => count(job.failed) },
  { name: "Skipped", kind: "number", of: (job) => count(job.skipped) },
  { name: "Lost tries", kind: "number", of: (job) => count(job.attempts) },
  { name: "Last error", kind: "name", of: (job) => h("span", { class: "breakable small" },
    job.lastError ?? "") },
];

export async function itemsTab({ id, query, signal }) {
  const asked = { status: query.status, recipientId: query.recipientId, after: query.after,
    limit: ROWS };
  const page = await get(`/runs/${segment(id)}/outbox`, asked, { signal });
  const link = (change) => makeHash("runs", id, { ...query, after: null, ...change });
  const chips = [[null, "All"], ...STATUSES.map((status) => [status, title(status)])];
  return () => h(
    "div",
    {},
    h(
      "form",
      {
        class: "filters",
        role: "search",
        "data-key": `find ${query.recipientId ?? ""}`,
        onsubmit: (event) => {
          event.preventDefault();
          const recipientId = new FormData(event.currentTarget).get("recipientId").trim();
          location.hash = link({ recipientId });
        },
      },
      h("input", { class: "input search", type: "search", name: "recipientId",
        value: query.recipientId ?? "", placeholder: "Recipient id",
        "aria-label": "Recipient id" }),
      button("Find", { type: "submit" }),
      chips.map(([status, words]) => linkButton(words, link({ status }), {
        look: (query.status ?? null) === status ? "small primary" : "small",
        "aria-current": (query.status ?? null) === status ? "true" : null,
      })),
      linkButton("In doubt", makeHash("doubts", null, { runId: id }), { look: "small" }),
    ),
    card(
      null,
      page.items.length === 0
        ? empty("mail", "No items here", "Items appear when their batch is taken up.",
          (query.status || query.recipientId) &&
            linkButton("Show all", link({ status: null, recipientId: null })))
        : [table("Items", ITEM_COLUMNS, page.items, (item) => item.outboxId),
          pager(plural(page.items.length, "item"), Boolean(query.after), link({}),
            page.next && link({ after: page.next }))],
    ),
  );
}

const ITEM_COLUMNS = [
  { name: "Item", of: (item) => copyableId(item.outboxId,
    { link: makeHash("items", item.outboxId), what: "item id" }) },
  { name: "Recipient", kind: "name", of: (item) => h("span", { class: "breakable" },
    item.recipientId) },
  { name: "Address", kind: "name", of: (item) => h("span", { class: "breakable muted" },
    item.address ?? "–") },
  { name: "Channel", of: (item) => tag(item.channel) },
  { name: "Status", of: (item) => pill(item.inDoubt ? "in_doubt" : item.status) },
  { name: "Why", kind: "name", of: (item) => h("span", { class: "breakable small" },
    item.reason ?? item.waitsFor ?? "") },
  { name: "Attempts", kind: "number", of: (item) => count(item.attemptsMade) },
  { name: "Updated", kind: "number", of: (item) => moment(item.updatedAt) },
];

export async function certificateTab({ id, signal }) {
  const [proof, explained] = await Promise.all([
    get(`/runs/${segment(id)}/certificate`, {}, { signal }),
    get(`/runs/${segment(id)}/explain`, {}, { signal }),
  ]);
  return () => h(
    "div",
    { class: "columns" },
    card(
      "Certificate",
      h(
        "div",
        { class: "card-body stack", "data-certificate": String(proof.holds) },
        proof.holds
          ? note("It holds: every intended item has its terminal row, and none was sent twice.",
            "good")
          : note("Not proven yet.", "warn"),
        h("ul", { class: "criteria" }, proof.criteria.map((criterion) =>
          h("li", {},
            h("span", { class: criterion.holds ? "holds" : "holds-not" },
              icon(criterion.holds ? "check" : "cross")),
            h("div", {},
              h("div", { class: "strong" }, title(criterion.name),
                h("span", { class: "for-readers" }, criterion.holds ? " holds" : " does not hold")),
              h("div", { class: "muted breakable" }, criterion.detail))))),
        h("div", { class: "small muted" }, "Counted from the ledger ",
          exactMoment(proof.issuedAt)),
        h("div", { class: "small" }, "Ledger digest ",
          copyableId(proof.ledgerDigest, { whole: true, what: "digest" })),
      ),
    ),
    card("Why this status", h("div", { class: "card-body" }, sentences(explained.sentences))),
  );
}
