// A provider's export, dropped or chosen: read on the server, shown as it would settle doubts, and
// applied once somebody has seen that.

import { upload } from "./api.js";
import { h, render } from "./dom.js";
import { count, plural } from "./state/format.js";
import { button, checkbox, select } from "./parts/controls.js";
import { note, problemNote } from "./parts/feedback.js";
import { card, facts, table } from "./parts/table.js";
import { doubtExport as texts } from "./texts/doubts.js";

const FIELDS = ["reference", "providerMessageId", "recipient", "time", "status"];
const MEANINGS = ["sent", "failed", "not_received", "unclear"];
const ABSENT = ["", "resubmit", "failed"];

/** `matching` limits it to a run or campaign; `onApplied` is given what was resolved. */
export function exportCard(targets, matching, onApplied) {
  const state = { file: null, target: matching.submissionTarget ?? targets[0]?.name, mapping: null,
    statuses: {}, absent: "", force: false, seen: null };
  const body = h("div", { class: "card-body stack", "data-keep": true });
  const draw = (problem = null) => render(body, content(state, targets, ask, apply, problem));

  async function send(confirm) {
    const query = new URLSearchParams({
      submissionTarget: state.target, fileName: state.file.name,
      ...(state.mapping && { mapping: JSON.stringify(state.mapping) }),
      ...(Object.keys(state.statuses).length > 0 && { statuses: JSON.stringify(state.statuses) }),
      ...(state.absent && { absent: state.absent }),
      ...(state.force && { force: "true" }),
      ...(matching.runId && { runId: matching.runId }),
      ...(matching.campaignId && { campaignId: matching.campaignId }),
      ...(confirm && { confirm: "true" }),
    });
    return upload(`/doubts/reconcile?${query}`, state.file, "application/octet-stream", () => {});
  }

  /** Changes what is asked, and asks anew. */
  async function ask(changes) {
    Object.assign(state, changes);
    if (!state.file) {
      return draw();
    }
    const asked = state.file;
    try {
      const seen = await send(false);
      if (asked === state.file) {
        state.seen = seen;
        state.mapping ??= seen.mapping;
        draw();
      }
    } catch (error) {
      state.seen = null;
      draw(error);
    }
    return null;
  }

  async function apply() {
    try {
      const done = await send(true);
      state.seen = null;
      state.file = null;
      await onApplied({ resolved: done.resolved, left: done.counts.inDoubt });
    } catch (error) {
      draw(error);
    }
  }

  draw();
  return card(texts.heading, body);
}

function content(state, targets, ask, apply, problem) {
  const { seen } = state;
  return h("div", { class: "stack" },
    h("p", { class: "muted" }, texts.about),
    h("div", { class: "form-row" },
      select(texts.target, targets.map((each) => [each.name, each.name]), {
        value: state.target,
        onchange: (event) => ask({ target: event.currentTarget.value }),
      })),
    chooser(ask),
    problem && problemNote(problem),
    seen && preview(state, seen, ask, apply));
}

function chooser(ask) {
  const take = (file) => file && ask({ file, mapping: null, statuses: {}, absent: "" });
  return h(
    "label",
    {
      class: "drop",
      "data-drop": true,
      ondragover: (event) => event.preventDefault(),
      ondrop: (event) => {
        event.preventDefault();
        take(event.dataTransfer.files[0]);
      },
    },
    h("span", { class: "strong" }, texts.drop),
    h("input", { type: "file", name: "export", accept: ".csv,.tsv,.txt,.json,.ndjson,.jsonl,.log",
      onchange: (event) => take(event.currentTarget.files[0]) }),
    h("span", { class: "field-hint" }, texts.dropHint));
}

function preview(state, seen, ask, apply) {
  const { file, counts } = seen;
  const settled = counts.sent + counts.failed + counts.resubmit;
  return h("div", { class: "stack", "data-preview": true },
    facts(
      [texts.file, texts.fileIs(file.name, plural(file.rows, "row"), file.format, file.encoding)],
      [texts.wouldBeSent, count(counts.sent)],
      [texts.wouldFail, count(counts.failed)],
      counts.resubmit > 0 && [texts.wouldBeResent, count(counts.resubmit)],
      [texts.stayInDoubt, count(counts.inDoubt)],
      counts.ambiguous > 0 && [texts.ambiguous, count(counts.ambiguous)],
      counts.notCovered > 0 && [texts.notCovered, count(counts.notCovered)],
      counts.held > 0 && [texts.held, count(counts.held)],
      [texts.knownRows, count(seen.knownRows)],
      [texts.unknownRows, count(seen.unknownRows)],
    ),
    file.unreadable > 0 && note([texts.unreadable(plural(file.unreadable, "line")),
      h("ul", {}, file.problems.slice(0, 5).map((each) =>
        h("li", {}, `${each.line}: ${each.message}`)))], "warn"),
    h("fieldset", {}, h("legend", {}, texts.columns),
      h("div", { class: "form-row" }, FIELDS.map((field) => columnChoice(field, state, seen, ask)))),
    seen.statuses.length > 0 && h("fieldset", {}, h("legend", {}, texts.statuses),
      h("div", { class: "form-row" }, seen.statuses.filter((each) => each.status)
        .map((each) => statusChoice(each, state, ask)))),
    h("div", { class: "form-row" }, select(texts.absent,
      ABSENT.map((each) => [each, texts.absents[each || "stay"]]),
      { value: state.absent, hint: texts.absentHint,
        onchange: (event) => ask({ absent: event.currentTarget.value }) })),
    state.absent && seen.absenceRefused && note(texts.absenceRefused[seen.absenceRefused], "warn"),
    counts.held > 0 && checkbox(texts.force, { checked: state.force,
      onchange: (event) => ask({ force: event.currentTarget.checked }) }),
    seen.sample.length > 0 && table(texts.sample, SAMPLE_COLUMNS, seen.sample,
      (each) => each.outboxId),
    seen.unknownSample.length > 0 && h("div", { class: "stack tight" },
      h("h3", {}, texts.unknownSample),
      table(texts.unknownSample, ROW_COLUMNS, seen.unknownSample, (each) => String(each.line))),
    h("div", { class: "button-row" },
      button(settled > 0 ? texts.apply(plural(settled, "verdict")) : texts.nothingToApply,
        { look: "primary", disabled: settled === 0, onclick: apply }),
      h("span", { class: "muted small" }, texts.nothingChanged)));
}

function columnChoice(field, state, seen, ask) {
  return select(texts.fields[field],
    [["", texts.noColumn], ...seen.file.columns.map((each) => [each, each])], {
      value: seen.mapping[field] ?? "",
      onchange: (event) => {
        const { [field]: _, ...others } = state.mapping ?? seen.mapping;
        const column = event.currentTarget.value;
        ask({ mapping: column ? { ...others, [field]: column } : others });
      },
    });
}

function statusChoice({ status, means, rows }, state, ask) {
  return select(texts.statusRows(status, count(rows)),
    MEANINGS.map((each) => [each, texts.meanings[each]]), {
      value: means,
      onchange: (event) =>
        ask({ statuses: { ...state.statuses, [status]: event.currentTarget.value } }),
    });
}

const SAMPLE_COLUMNS = [
  { name: texts.recipient, kind: "name", of: (each) => each.recipientId },
  { name: texts.becomes, of: (each) => texts.verdicts[each.verdict] },
  { name: texts.matchedBy, of: (each) => texts.matches[each.matchedBy ?? "absent"] },
  { name: texts.line, kind: "number", of: (each) => each.row ? count(each.row.line) : "–" },
  { name: texts.status, kind: "name", of: (each) => each.row?.status ?? "–" },
];

const ROW_COLUMNS = [
  { name: texts.line, kind: "number", of: (row) => count(row.line) },
  { name: texts.fields.reference, kind: "name", of: (row) =>
    h("span", { class: "breakable" }, row.reference ?? "–") },
  { name: texts.fields.recipient, kind: "name", of: (row) => row.recipient ?? "–" },
  { name: texts.status, kind: "name", of: (row) => row.status ?? "–" },
];
