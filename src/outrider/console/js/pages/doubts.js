// What is in doubt: the question that each puts, what is being done about it, and how a person
// settles it: one by one, all that match, or by the provider's own export.

import { get } from "../api.js";
import { h, render } from "../dom.js";
import { exportCard } from "../doubt_export.js";
import { resolveMany, resolveOne } from "../resolving.js";
import { count, plural } from "../state/format.js";
import { makeHash } from "../state/hash.js";
import { button, linkButton, select } from "../parts/controls.js";
import { copyableId } from "../parts/copying.js";
import { empty, failureToast, toast } from "../parts/feedback.js";
import { clockTime, moment } from "../parts/timestamps.js";
import { tag } from "../parts/pill.js";
import { pager, table } from "../parts/table.js";
import { attemptWords, reasonWords } from "../parts/words.js";
import { doubts as texts } from "../texts/doubts.js";

const ROWS = 50;
const FILTERS = ["campaignId", "runId", "submissionTarget", "reason", "settles"];
const SETTLES = ["receipt", "key", "look_up", "person"];

export async function show(context) {
  const { main, query, signal, frame } = context;
  const matching = Object.fromEntries(FILTERS.filter((name) => query[name])
    .map((name) => [name, query[name]]));
  const { settles, ...others } = matching;
  // Each choice is counted among the rest of the filters, not among those it excludes.
  const [page, counts, all] = await Promise.all([
    get("/doubts", { ...matching, after: query.after, limit: ROWS }, { signal }),
    get("/doubts/counts", others, { signal }),
    get("/doubts/counts", query.runId ? { runId: query.runId } : {}, { signal }),
  ]);
  const chosen = new Set();
  const again = async (done) => {
    if (done) {
      if (done.resolved !== undefined) {
        const left = done.left > 0 ? texts.left(count(done.left)) : "";
        toast(texts.resolved(plural(done.resolved, "item"), left));
      }
      frame.countTrouble();
      await show(context);
    }
  };
  const resolve = (which) => resolveMany(which).then(again).catch(failureToast);
  const importer = frame.canOperate && all.total > 0
    && exportCard(all.submissionTargets, matching, again);
  const draw = () => {
    frame.head({
      title: texts.inDoubt,
      under: texts.about,
      actions: frame.canOperate && page.items.length > 0 && [
        chosen.size > 0 && button(texts.resolveSelected(count(chosen.size)),
          { look: "primary", onclick: () => resolve({ ids: [...chosen] }) }),
        button(texts.resolveAllMatching, { onclick: () => resolve(matching) }),
      ],
    });
    render(main, h("div", { class: "stack" },
      filters(query, matching, counts, all),
      list(page, query, matching, frame, chosen, draw, (item) =>
        resolveOne(item).then(again).catch(failureToast)),
      importer));
  };
  draw();
}

/** Every filter is part of the address, so that a link to the page shows the same. */
function filters(query, matching, counts, all) {
  const link = (changes) => makeHash("doubts", null, { ...matching, ...changes });
  const choice = (label, name, groups, words = (each) => each.label) => {
    const known = groups.map((each) => [each.name, texts.counted(words(each), count(each.count))]);
    if (query[name] && !groups.some((each) => each.name === query[name])) {
      known.push([query[name], query[name]]);
    }
    return select(label, [["", texts.any], ...known], {
      name,
      value: query[name] ?? "",
      onchange: (event) => {
        location.hash = link({ [name]: event.currentTarget.value });
      },
    });
  };
  const chip = (settles, words, number) => linkButton(
    texts.counted(words, count(number)), link({ settles }), {
      look: (query.settles ?? null) === settles ? "small primary" : "small",
      "aria-current": (query.settles ?? null) === settles ? "true" : null,
      "data-settles": settles ?? "all",
    });
  return h(
    "section",
    { class: "stack tight", "aria-label": texts.filters },
    h("div", { class: "button-row" },
      chip(null, texts.allDoubts, counts.total),
      SETTLES.map((each) => chip(each, texts.settledBy[each], counts.settles[each])),
      counts.unchecked > 0 && h("span", { class: "muted small" },
        texts.unchecked(count(counts.unchecked)))),
    h("div", { class: "form-row" },
      choice(texts.campaign, "campaignId", all.campaigns),
      choice(texts.target, "submissionTarget", all.submissionTargets),
      choice(texts.reason, "reason", all.reasons, (each) => reasonWords(each.label))),
    query.runId && h("div", { class: "button-row" },
      h("span", { class: "muted" }, texts.showingOnly, texts.oneRun),
      linkButton(texts.showAll, "#/doubts", { look: "small" })),
  );
}

function list(page, query, matching, frame, chosen, draw, resolve) {
  const link = (after) => makeHash("doubts", null, { ...matching, after });
  const isFiltered = Object.keys(matching).length > 0;
  if (page.items.length === 0) {
    return h("section", { class: "card" }, isFiltered
      ? empty("check", texts.nothingMatches, texts.nothingMatchesHint,
        linkButton(texts.showAll, "#/doubts"))
      : empty("check", texts.nothingInDoubt, texts.nothingInDoubtHint,
        linkButton(texts.goToCampaigns, "#/campaigns")));
  }
  return h("section", { class: "card" },
    table(texts.inDoubt, columns(frame, chosen, draw, resolve), page.items,
      (item) => item.outboxId),
    pager(plural(page.items.length, "item"), Boolean(query.after), link(null),
      page.next && link(page.next)));
}

function columns(frame, chosen, draw, resolve) {
  return [
    frame.canOperate && {
      name: "",
      label: texts.select,
      of: (item) => h("input", {
        type: "checkbox",
        "aria-label": texts.selectOne(item.recipientId),
        checked: chosen.has(item.outboxId),
        onchange: (event) => {
          chosen[event.currentTarget.checked ? "add" : "delete"](item.outboxId);
          draw();
        },
      }),
    },
    { name: texts.recipient, kind: "name", of: (item) => h("div", {},
      h("a", { class: "strong breakable", href: makeHash("items", item.outboxId) },
        item.recipientId),
      h("div", { class: "button-row" }, tag(item.channel),
        h("span", { class: "muted small breakable" }, item.submissionTarget))) },
    { name: texts.question, kind: "name", of: question },
    { name: texts.underWay, kind: "name", of: underWay },
    { name: texts.reference, of: (item) =>
      copyableId(item.reference, { what: texts.referenceToCopy }) },
    { name: texts.attempts, kind: "number", of: attemptWords },
    { name: texts.since, kind: "number", of: (item) => moment(item.doubtedAt) },
    frame.canOperate && { name: "", kind: "actions", of: (item) =>
      button(texts.resolve, { look: "small", onclick: () => resolve(item),
        "aria-label": texts.resolveOne(item.recipientId) }) },
  ].filter(Boolean);
}

/** "Did Twilio take the message to +447700900077 at 10:02:11?", and what is known of the call. */
function question(item) {
  const asked = texts.questions[item.channel] ?? texts.questions.sms;
  const provider = texts.providers[item.provider] ?? item.provider;
  const known = item.reason === "suppressed" ? texts.known.suppressed
    : texts.known[item.progress ?? "open"];
  return h("div", { class: "small breakable", "data-question": true },
    h("div", { class: "strong" }, asked(provider, item.address ?? item.recipientId),
      clockTime(item.openedAt ?? item.doubtedAt), texts.questionEnd),
    h("div", {}, known),
    item.error && h("div", { class: "muted" }, item.error));
}

/** What Outrider does about it, and when; or that it is up to a person. */
function underWay(item) {
  return h("div", { class: "small breakable", "data-settles-by": item.settles ?? "unchecked" },
    h("div", {}, texts.doing[item.settles ?? "unchecked"]),
    item.nextCheckAt && item.settles && h("div", { class: "muted" }, texts.next[item.settles],
      clockTime(item.nextCheckAt)),
    item.finding && h("div", { class: "muted" }, item.finding));
}
