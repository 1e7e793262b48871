// One run: its state, and behind tabs its steps in time, its log, its jobs, its items and its
// certificate.

import { get, post, segment } from "../api.js";
import { watchBlockers } from "../blocker_watch.js";
import { h, oncePerFrame, render } from "../dom.js";
import { LiveCampaigns } from "../live_campaigns.js";
import { watchReceipts } from "../receipt_watch.js";
import { RunLog } from "../run_log.js";
import { serverNow } from "../server_clock.js";
import { count, title } from "../state/format.js";
import { makeHash } from "../state/hash.js";
import { sendsMessages, shownRunState, successName } from "../state/phase_words.js";
import { accountingAt } from "../state/run_view.js";
import { stream } from "../stream.js";
import { blockerNotes } from "../parts/blockers.js";
import { button, tabs } from "../parts/controls.js";
import { copyableId } from "../parts/copying.js";
import { ask } from "../parts/dialog.js";
import { failureToast, note, skeleton } from "../parts/feedback.js";
import { doubtsNote, ledger } from "../parts/ledger.js";
import { exactMoment, moment, span } from "../parts/timestamps.js";
import { pill } from "../parts/pill.js";
import { card, facts } from "../parts/table.js";
import { Timeline } from "./run_timeline.js";
import { certificateTab, itemsTab, jobsTab, logTab } from "./run_tabs.js";
import { run as texts } from "../texts/runs.js";

const TABS = [["steps", texts.timeline], ["log", texts.eventLog], ["jobs", texts.jobs],
  ["items", texts.items], ["certificate", texts.certificate]];
const RUN_BEAT_MS = 1_000;
const REASONS_SHOWN = 6;

export async function show(context) {
  const page = new RunPage(context);
  await page.load();
  stream.watch({
    cursors: () => page.live.cursors(),
    resync: () => page.resync(),
    onEvent: (event) => page.happened(event),
  });
}

class RunPage {
  #context;
  #run;
  #timeline;
  #drawContent = () => null;
  #isLoaded = false;
  #fetchedAt = 0;
  #fetchTimer = null;
  #outage = null;

  constructor(context) {
    this.#context = context;
    this.draw = oncePerFrame(() => this.drawNow());
    this.live = new LiveCampaigns(() => {}, context.signal);
    this.log = new RunLog(context.id, () => this.draw(), context.signal);
    this.#timeline = new Timeline(this.log, context, () => this.draw());
  }

  get tab() {
    const given = this.#context.query.tab;
    return TABS.some(([name]) => name === given) ? given : "steps";
  }

  async load() {
    const { id, signal } = this.#context;
    this.#run = await get(`/runs/${segment(id)}`, {}, { signal });
    const path = `/campaigns/${segment(this.#run.campaignId)}/status`;
    const [snapshot] = await Promise.all([get(path, {}, { signal }), this.log.load()]);
    this.live.put(snapshot);
    this.drawNow();
    await this.#timeline.load();
    await this.#loadTab();
    this.#isLoaded = true;
    this.drawNow();
    this.#watchBlockers();
    this.#watchReceipts();
  }

  #watchBlockers() {
    watchBlockers({
      signal: this.#context.signal,
      isWanted: () => this.#outage !== null || this.#run.finishedAt === null,
      look: () => this.#refresh(),
      said: (outage) => {
        this.#outage = outage;
        this.draw();
      },
    });
  }

  /** While the run is under way, the campaign's events report them. */
  #watchReceipts() {
    watchReceipts({
      signal: this.#context.signal,
      isWanted: () => this.#run.finishedAt !== null && Boolean(this.#run.accounting.delivery),
      look: () => this.#refresh(),
    });
  }

  async resync() {
    const { signal } = this.#context;
    const path = `/campaigns/${segment(this.#run.campaignId)}/status`;
    this.live.put(await get(path, {}, { signal }));
    await this.#refresh();
  }

  happened(event) {
    if (this.live.apply(event) && event.phase === this.#run.phase) {
      this.#refreshSoon();
    }
  }

  /** After each campaign event, and at most every second. */
  #refreshSoon() {
    if (this.#fetchTimer === null) {
      const wait = Math.max(0, this.#fetchedAt + RUN_BEAT_MS - Date.now());
      this.#fetchTimer = setTimeout(() => {
        this.#fetchTimer = null;
        this.#refresh().catch(() => {});
      }, wait);
    }
  }

  async #refresh() {
    const { id, signal } = this.#context;
    if (signal.aborted) {
      return;
    }
    this.#fetchedAt = Date.now();
    // Counting the reasons reads every item: it is done when the page opens, and not each second.
    const { reasons } = this.#run;
    const found = await get(`/runs/${segment(id)}`, { reasons: false }, { signal });
    this.#run = { ...found, reasons };
    this.log.poke();
    this.draw();
  }

  async #loadTab() {
    const loaders = { jobs: jobsTab, items: itemsTab, certificate: certificateTab };
    const loader = loaders[this.tab];
    if (loader) {
      this.#drawContent = await loader(this.#context);
    }
  }

  drawNow() {
    const { main, frame, signal } = this.#context;
    if (!this.#run || signal.aborted) {
      return;
    }
    const run = this.#run;
    const { past } = this.#timeline;
    const shownState = past ? past.snapshot.status : shownRunState(run, serverNow());
    frame.head({
      title: texts.heading(title(run.phase)),
      crumbs: [[texts.campaigns, "#/campaigns"],
        [this.live.view(run.campaignId)?.name ?? texts.campaign,
          makeHash("campaigns", run.campaignId)]],
      beside: [pill(shownState), past && pill("scheduled", { words: texts.atEvent(past.at) }),
        this.log.view.stale && pill("delayed", { words: texts.catchingUp })],
      under: copyableId(run.runId, { whole: true, what: texts.runId }),
      actions: this.#actions(run),
    });
    render(
      main,
      h(
        "div",
        { class: "stack" },
        h(
          "div",
          {},
          blockerNotes(this.#outage ?? run.blockers, { runId: run.runId }),
          h("div", { class: "columns" },
            card(texts.results, h("div", { class: "card-body stack" }, this.#results(run, past))),
            card(texts.details, h("div", { class: "card-body" }, this.#facts(run)))),
        ),
        h("div", {}, this.#tabs(), this.#tabContent()),
      ),
    );
  }

  /** Now, or as it was after the event that the timeline is held at. */
  #results(run, past) {
    const success = successName(run.phase);
    return past
      ? [note(texts.resultsAt(past.at)),
        ledger(accountingAt(run.accounting.intended, past.snapshot), success)]
      : [ledger(run.accounting, success), doubtsNote(run.accounting, { runId: run.runId })];
  }

  #facts(run) {
    return facts(
      shownRunState(run, serverNow()) === "scheduled"
        ? [texts.starts, exactMoment(run.scheduledFor)]
        : [texts.started, exactMoment(run.startedAt)],
      [texts.finished, exactMoment(run.finishedAt)],
      [texts.duration, span(run.startedAt, run.finishedAt)],
      sendsMessages(run.phase) && [texts.channel, run.channel],
      [texts.lastLogEvent, `#${this.log.view.lastEventSeq}`],
      run.stoppedAt && [texts.stopped, moment(run.stoppedAt)],
      run.retryOf && [texts.continues,
        copyableId(run.retryOf, { link: makeHash("runs", run.retryOf), what: texts.runId })],
      ...run.held.map(({ waitsFor, waiting, items }) =>
        [texts.held(waitsFor.replaceAll("_", " ")), texts.heldCount(count(waiting), count(items))]),
      ...run.reasons.slice(0, REASONS_SHOWN).map(({ status, reason, items }) =>
        [`${title(status === "queued" ? "open" : status)}: ${reason.replaceAll("_", " ")}`,
          count(items)]),
    );
  }

  #tabs() {
    const { id } = this.#context;
    return tabs(texts.views,
      TABS.map(([name, words]) => [name, words, makeHash("runs", id, { tab: name })]), this.tab);
  }

  #tabContent() {
    if (!this.#isLoaded) {
      return card(null, h("div", { class: "card-body" }, skeleton()));
    }
    switch (this.tab) {
      case "steps":
        return this.#timeline.draw();
      case "log":
        return logTab(this.log);
      default:
        return this.#drawContent();
    }
  }

  #actions(run) {
    const { frame } = this.#context;
    return run.waitsFor === "approval" && frame.canAdminister &&
      button(texts.approve, { sign: "check", look: "primary", onclick: () => this.#approve(run) });
  }

  async #approve(run) {
    try {
      await ask({
        heading: texts.approveHeading,
        words: texts.approveHint,
        confirm: texts.approve,
        act: () => post(`/runs/${segment(run.runId)}/signals`, { signal: "APPROVE" }),
      });
      await this.#refresh();
    } catch (error) {
      failureToast(error);
    }
  }
}
