// What is shown below a campaign's ledger: its runs, its events as they come, and its files.

import { segment } from "../api.js";
import { h } from "../dom.js";
import { count, percentage, title } from "../state/format.js";
import { makeHash } from "../state/hash.js";
import { PROGRESS_EVENT } from "../state/phase_machine.js";
import { sendsMessages, shownRunState, successName } from "../state/phase_words.js";
import { serverNow } from "../server_clock.js";
import { copyableId } from "../parts/copying.js";
import { empty } from "../parts/feedback.js";
import { bar } from "../parts/ledger.js";
import { clockTime, moment, span } from "../parts/timestamps.js";
import { pill } from "../parts/pill.js";
import { card, pager, table } from "../parts/table.js";
import { reasonSentence } from "../parts/sentences.js";
import { eventWord, isStop } from "../parts/words.js";
import { campaignCards as texts } from "../texts/campaigns.js";

/** A run knows nothing of a pause: `pausedRun` is the one whose phase is paused. */
export function runsCard({ items, next }, { id, query }, pausedRun) {
  const link = (after) => makeHash("campaigns", id, { ...query, after });
  return card(
    texts.runs,
    items.length === 0
      ? empty("clock", texts.noRunsYet, texts.noRunsYetHint)
      : [table(texts.runs, runColumns(pausedRun), items, (run) => run.runId),
        pager("", Boolean(query.after), link(null), next && link(next))],
  );
}

export function eventsCard(events) {
  return card(
    texts.events,
    events.length === 0
      ? h("p", { class: "card-body muted" }, texts.noEventsYet)
      : h("ol", { class: "feed", "aria-live": "off" }, events.map((event) =>
        h("li", { "data-key": String(event.sequence), "data-event": event.type },
          h("span", { class: "feed-time muted" }, clockTime(event.timestamp)),
          h("span", { class: "breakable" }, h("span", { class: "strong" }, title(event.phase)),
            ` ${eventWord(event)}`,
            event.type === PROGRESS_EVENT &&
              texts.progressTo(percentage(event.payload.progressPercentage)),
            !isStop(event) && event.payload.reason &&
              [" (", reasonSentence(event.payload.reason), ")"]),
          h("span", { class: "muted small" }, `#${event.sequence}`)))),
  );
}

export function artifactsCard({ items }) {
  return items.length > 0 && card(
    texts.files,
    h("ul", { class: "feed" }, items.map((file) =>
      h("li", { "data-key": file.id },
        h("a", { class: "breakable", download: true,
          href: `/api/v2/artifacts/${segment(file.id)}/content` }, file.name),
        h("span", { class: "muted small" }, moment(file.createdAt))))),
  );
}

const runColumns = (pausedRun) => [
  { name: texts.run, of: (run) => copyableId(run.runId, { link: makeHash("runs", run.runId) }) },
  { name: texts.phase, of: (run) => title(run.phase) },
  { name: texts.status, of: (run) => pill(run.runId === pausedRun ? "paused"
    : shownRunState(run, serverNow())) },
  { name: texts.results, of: (run) => h("div", { class: "with-bar" }, bar(run.accounting,
    { success: successName(run.phase) })) },
  { name: texts.sent, kind: "number", of: (run) => (sendsMessages(run.phase)
    ? count(run.accounting.sent) : h("span", { class: "muted" }, "–")) },
  { name: texts.failed, kind: "number", of: (run) => count(run.accounting.failed) },
  { name: texts.duration, kind: "number", of: (run) => span(run.startedAt, run.finishedAt) },
];
