// All campaigns, newest first: how far, how fast, in what state, live.

import { get } from "../api.js";
import { h, oncePerFrame, render } from "../dom.js";
import { LiveCampaigns, snapshotOfLine } from "../live_campaigns.js";
import { serverNow } from "../server_clock.js";
import { controlPhaseOf, isGuessed, shownStateOf, stateOf } from "../state/campaign_view.js";
import { count, percentage, rate, title } from "../state/format.js";
import { makeHash } from "../state/hash.js";
import { sendsMessages, successName } from "../state/phase_words.js";
import { recentRate } from "../state/throughput.js";
import { CAMPAIGNS_MOST, stream } from "../stream.js";
import { button, linkButton, select } from "../parts/controls.js";
import { copyButton } from "../parts/copying.js";
import { empty } from "../parts/feedback.js";
import { bar } from "../parts/ledger.js";
import { moment } from "../parts/timestamps.js";
import { pill } from "../parts/pill.js";
import { pager, table } from "../parts/table.js";
import { campaigns as texts } from "../texts/campaigns.js";

const STATES = [["", texts.allStates], ["in_progress", texts.inProgressOrScheduled],
  ["paused", texts.paused],
  ["ready", texts.readyForNextPhase], ["not_started", texts.notStarted],
  ["completed", texts.completed], ["failed", texts.failedOrStopped]];
const NEW_BEAT_MS = 3_000;

export async function show({ main, query, signal, frame }) {
  frame.head({
    title: texts.campaigns,
    actions: frame.canOperate &&
      linkButton(texts.newCampaign, "#/new", { sign: "plus", look: "primary" }),
  });
  const asked = { state: query.state, q: query.q, after: query.after, limit: CAMPAIGNS_MOST };
  let page = null;
  const draw = () => page && !signal.aborted
    && render(main, filters(query), list(page, live, query, frame));
  const live = new LiveCampaigns(oncePerFrame(draw), signal);
  const load = async () => {
    page = null;
    const found = await get("/campaigns", asked, { signal });
    live.only(found.items.map(snapshotOfLine));
    page = found;
    draw();
  };
  const follow = async () => {
    await load();
    stream.watch({
      cursors: () => live.cursors(),
      resync: load,
      onEvent: (event) => live.apply(event),
    });
  };
  await follow();
  if (!query.after) {
    lookForNew(async () => {
      const { items: [newest] } = await get("/campaigns", { ...asked, limit: 1 }, { signal });
      if (page && newest?.campaignId !== page.items[0]?.campaignId) {
        await follow();
      }
    }, signal);
  }
}

/** The stream reports known campaigns only: one created elsewhere has to be looked for. */
function lookForNew(look, signal) {
  const timer = setInterval(() => {
    if (!document.hidden && stream.status.phase !== "waiting") {
      look().catch(() => {});
    }
  }, NEW_BEAT_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
}

function filters(query) {
  return h(
    "form",
    {
      class: "filters",
      role: "search",
      "data-key": `find ${query.q ?? ""} ${query.state ?? ""}`,
      "data-keep": true,
      onsubmit: (event) => {
        event.preventDefault();
        const given = new FormData(event.currentTarget);
        location.hash = makeHash("campaigns", null,
          { q: given.get("q"), state: given.get("state") });
      },
    },
    h("input", { class: "input search", type: "search", name: "q", value: query.q ?? "",
      placeholder: texts.findByName, "aria-label": texts.findByName }),
    select(texts.state, STATES, {
      name: "state",
      value: query.state ?? "",
      isLabelled: false,
      onchange: (event) => event.currentTarget.form.requestSubmit(),
    }),
    button(texts.find, { type: "submit" }),
    (query.q || query.state) && linkButton(texts.clear, "#/campaigns", { look: "plain" }),
  );
}

function list(page, live, query, frame) {
  if (page.items.length === 0 && !page.next) {
    return h("section", { class: "card" }, nothing(query, frame));
  }
  const rows = page.items.map((line) => ({ line, view: live.view(line.campaignId) }));
  const next = page.next && makeHash("campaigns", null, { ...query, after: page.next });
  const first = makeHash("campaigns", null, { ...query, after: null });
  return h(
    "section",
    { class: "card" },
    table(texts.campaigns, columns(live), rows, ({ line }) => line.campaignId),
    pager(texts.onThisPage(count(page.items.length)), Boolean(query.after), first, next),
  );
}

function nothing(query, frame) {
  if (query.q || query.state) {
    return empty("campaigns", texts.noMatch, texts.noMatchHint,
      linkButton(texts.showAll, "#/campaigns"));
  }
  return empty("campaigns", texts.noCampaignsYet,
    texts.noCampaignsYetHint,
    frame.canOperate &&
      linkButton(texts.createFirst, "#/new", { sign: "plus", look: "primary" }));
}

function columns(live) {
  return [
    { name: texts.campaign, kind: "name", of: ({ line }) => nameCell(line) },
    { name: texts.state, of: ({ view }) => statePill(view) },
    { name: texts.progress, of: ({ line, view }) => progressCell(line, view) },
    { name: texts.rate, kind: "number", of: ({ line, view }) => rateCell(line, view, live) },
    { name: texts.sent, kind: "number", of: part("sent") },
    { name: texts.failed, kind: "number", of: part("failed") },
    { name: texts.inDoubt, kind: "number", of: part("inDoubt") },
    { name: texts.recipients, kind: "number", of: ({ view }) => count(view.recipients) },
    { name: texts.created, kind: "number", of: ({ line }) => moment(line.createdAt) },
  ];
}

function nameCell(line) {
  return h("div", { class: "copyable" },
    h("a", { class: "strong breakable", href: makeHash("campaigns", line.campaignId) }, line.name),
    copyButton(line.campaignId, texts.campaignId));
}

/** The phase that the line's state and counts are of. */
function shownPhase(line, view) {
  const ran = view.phaseOrder.filter((phase) => view.phases[phase].accounting);
  return controlPhaseOf(view) ?? (ran.includes(line.phase) ? line.phase : ran.at(-1)) ?? null;
}

function overallState(view) {
  const states = view.phaseOrder.map((phase) => stateOf(view, phase));
  for (const state of ["paused", "in_progress", "failed"]) {
    if (states.includes(state)) {
      return state;
    }
  }
  if (states.every((state) => state === "not_started")) {
    return "not_started";
  }
  return states.every((state) => state === "completed") ? "completed" : "ready";
}

/** As it is said: where all that failed was stopped, and what is under way is scheduled. */
function overallWord(view) {
  const state = overallState(view);
  const said = view.phaseOrder.filter((phase) => stateOf(view, phase) === state)
    .map((phase) => shownStateOf(view, phase, serverNow()));
  return said.length === 0 || said.includes(state) ? state : said[0];
}

/** The phase that a campaign is ready for; null where it is anything else. */
export function readyFor(view) {
  return overallState(view) === "ready"
    ? view.phaseOrder.find((phase) => stateOf(view, phase) === "not_started") : null;
}

export function statePill(view) {
  const controlled = controlPhaseOf(view);
  const next = readyFor(view);
  return pill(overallWord(view), {
    words: next && texts.readyFor(title(next)),
    isGuess: controlled !== null && isGuessed(view, controlled),
  });
}

function progressCell(line, view) {
  const phase = shownPhase(line, view);
  if (phase === null) {
    return h("span", { class: "muted" }, "–");
  }
  const { accounting, progressPercentage } = view.phases[phase];
  return h(
    "div",
    { class: "with-bar" },
    bar(accounting, { success: successName(phase) }),
    h("div", { class: "with-bar-words" }, h("span", {}, percentage(progressPercentage)),
      h("span", {}, title(phase))),
  );
}

function rateCell(line, view, live) {
  const phase = controlPhaseOf(view);
  if (phase === null || shownStateOf(view, phase, serverNow()) !== "in_progress") {
    return h("span", { class: "muted" }, "–");
  }
  const found = recentRate(live.samples(line.campaignId, phase), serverNow());
  return found === null ? h("span", { class: "muted" }, "…") : rate(found);
}

function part(name) {
  return ({ line, view }) => {
    const phase = shownPhase(line, view);
    const { accounting, outcome } = view.phases[phase] ?? {};
    const isCounted = name !== "sent" || sendsMessages(phase);
    const items = isCounted ? (outcome ?? accounting)?.[name] : undefined;
    return items ? count(items) : h("span", { class: "muted" }, items === 0 ? "0" : "–");
  };
}
