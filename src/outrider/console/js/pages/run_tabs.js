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
import { clockTime, exactMoment, moment } from "../parts/timestamps.js";
import { pill, tag } from "../parts/pill.js";
import { card, pager, sentences, table } from "../parts/table.js";
import { attemptWords } from "../parts/words.js";
import { runTabs as texts } from "../texts/runs.js";

const ROWS = 50;
const STATUSES = ["queued", "sent", "called", "posted", "failed", "skipped"];

export function logTab(log) {
  const { events, stale } = log.view;
  const newestFirst = [...events].reverse();
  return card(
    null,
    [
      stale && h("div", { class: "card-body" },
        note(texts.gap)),
      events.length === 0
        ? empty("clock", texts.noEvents, texts.noEventsHint)
        : table(texts.eventLog, LOG_COLUMNS, newestFirst, (event) => String(event.runSeq)),
      log.beginsAt > 1 && h("div", { class: "pager" }, texts.shownFrom(log.beginsAt),
        button(texts.showEarlier, {
          look: "small",
          onclick: () => log.showEarlier().catch(failureToast),
        })),
    ],
  );
}

const LOG_COLUMNS = [
  { name: "#", kind: "number", of: (event) => event.runSeq },
  { name: texts.time, of: (event) => clockTime(event.occurredAt) },
  { name: texts.event, of: (event) => h("span", { class: "strong" }, event.eventType) },
  { name: texts.job2, of: (event) => (event.stepId ? copyableId(event.stepId) : "") },
  { name: texts.logicalAttempt, kind: "number", of: (event) => event.logicalAttemptId },
  { name: texts.engineAttempt, kind: "number", of: (event) => event.engineAttemptId ?? "" },
  { name: texts.emittedBy, of: (event) => event.emittedBy },
  {
    name: texts.payload,
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
      ? empty("clock", texts.noJobsYet, texts.noJobsHint)
      : [table(texts.jobs, JOB_COLUMNS, page.items, (job) => job.jobId),
        pager(plural(page.items.length, "job"), Boolean(query.after), link(null),
          page.next && link(page.next))],
  );
}

const JOB_COLUMNS = [
  { name: texts.job, of: (job) => copyableId(job.jobId, { what: texts.jobId }) },
  { name: texts.kind, of: (job) => title(job.jobType) },
  { name: texts.target, of: (job) => job.submissionTarget },
  { name: texts.status, of: (job) => [pill(job.status), job.paused && tag("paused"),
    job.cancelled && tag("cancelled")] },
  { name: texts.items, kind: "number", of: (job) => count(job.items) },
  { name: texts.succeeded, kind: "number", of: (job) => count(job.sent) },
  { name: texts.failed, kind: "number", of: (job) => count(job.failed) },
  { name: texts.skipped, kind: "number", of: (job) => count(job.skipped) },
  { name: texts.lostAttempts, kind: "number", of: (job) => count(job.attempts) },
  { name: texts.lastError, kind: "name", of: (job) => h("span", { class: "breakable small" },
    job.lastError ?? "") },
  { name: texts.findings, kind: "name", of: (job) => found(job.result) },
];

/** What a phase found out in a job: its checks with what to do, or whatever else it says. */
function found(result) {
  if (!result || Object.keys(result).length === 0) {
    return "";
  }
  const { findings } = result;
  return h("details", {}, h("summary", { class: "muted small" },
    findings ? plural(findings.length, "check") : plural(Object.keys(result).length, "field")),
  findings
    ? h("ul", { class: "small reading" }, findings.map((each) => h("li", {},
      h("span", { class: "strong" }, `${title(each.check)}: ${title(each.state)}`),
      ` · ${each.found}`, each.hint && h("div", { class: "muted breakable" }, each.hint))))
    : h("pre", {}, JSON.stringify(result, null, 2)));
}

export async function itemsTab({ id, query, signal }) {
  const asked = { status: query.status, recipientId: query.recipientId, after: query.after,
    limit: ROWS };
  const page = await get(`/runs/${segment(id)}/outbox`, asked, { signal });
  const link = (change) => makeHash("runs", id, { ...query, after: null, ...change });
  const chips = [[null, texts.all], ...STATUSES.map((status) => [status, title(status)])];
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
        value: query.recipientId ?? "", placeholder: texts.recipientId,
        "aria-label": texts.recipientId }),
      button(texts.find, { type: "submit" }),
      chips.map(([status, words]) => linkButton(words, link({ status }), {
        look: (query.status ?? null) === status ? "small primary" : "small",
        "aria-current": (query.status ?? null) === status ? "true" : null,
      })),
      linkButton(texts.inDoubt, makeHash("doubts", null, { runId: id }), { look: "small" }),
    ),
    card(
      null,
      page.items.length === 0
        ? empty("mail", texts.noItems, texts.noItemsHint,
          (query.status || query.recipientId) &&
            linkButton(texts.showAll, link({ status: null, recipientId: null })))
        : [table(texts.items, ITEM_COLUMNS, page.items, (item) => item.outboxId),
          pager(plural(page.items.length, "item"), Boolean(query.after), link({}),
            page.next && link({ after: page.next }))],
    ),
  );
}

const ITEM_COLUMNS = [
  { name: texts.item, of: (item) => copyableId(item.outboxId,
    { link: makeHash("items", item.outboxId), what: texts.itemId }) },
  { name: texts.recipient, kind: "name", of: (item) => h("span", { class: "breakable" },
    item.recipientId) },
  { name: texts.address, kind: "name", of: (item) => h("span", { class: "breakable muted" },
    item.address ?? "–") },
  { name: texts.channel, of: (item) => tag(item.channel) },
  { name: texts.status, of: (item) => pill(item.inDoubt ? "in_doubt" : item.status) },
  { name: texts.why, kind: "name", of: (item) => h("span", { class: "breakable small" },
    item.reason ?? item.waitsFor ?? "") },
  { name: texts.attempts, kind: "number", of: (item) => attemptWords(item) },
  { name: texts.updated, kind: "number", of: (item) => moment(item.updatedAt) },
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
      texts.certificate,
      h(
        "div",
        { class: "card-body stack", "data-certificate": String(proof.holds) },
        proof.holds
          ? note(texts.proven,
            "good")
          : note(texts.notProven, "warn"),
        h("ul", { class: "criteria" }, proof.criteria.map((criterion) =>
          h("li", {},
            h("span", { class: criterion.holds ? "holds" : "holds-not" },
              icon(criterion.holds ? "check" : "cross")),
            h("div", {},
              h("div", { class: "strong" }, title(criterion.name),
                h("span", { class: "for-readers" },
                  criterion.holds ? texts.clauseHolds : texts.clauseFails)),
              h("div", { class: "muted breakable" }, criterion.detail))))),
        h("div", { class: "small muted" }, texts.countedAt,
          exactMoment(proof.issuedAt)),
        h("div", { class: "small" }, texts.ledgerDigest,
          copyableId(proof.ledgerDigest, { whole: true, what: "digest" })),
      ),
    ),
    card(texts.whyThisStatus, h("div", { class: "card-body" }, sentences(explained.sentences))),
  );
}
