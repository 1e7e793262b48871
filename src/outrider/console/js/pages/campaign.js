// One campaign, live: its phases as a track, the ledger of the one looked at, its pace, its runs,
// its messages, and events as they come.

import { get, segment } from "../api.js";
import { watchBlockers } from "../blocker_watch.js";
import { h, oncePerFrame, render } from "../dom.js";
import { LiveCampaigns } from "../live_campaigns.js";
import { nextButton } from "../phase_controls.js";
import { watchReceipts } from "../receipt_watch.js";
import { ended } from "../state/accounting.js";
import { controlPhaseOf, outcomeAfter } from "../state/campaign_view.js";
import { plural, title } from "../state/format.js";
import { makeHash } from "../state/hash.js";
import { PROGRESS_EVENT } from "../state/phase_machine.js";
import { successName } from "../state/phase_words.js";
import { stream } from "../stream.js";
import { blockerNotes } from "../parts/blockers.js";
import { copyableId } from "../parts/copying.js";
import { note } from "../parts/feedback.js";
import { doubtsNote, inWords, ledger } from "../parts/ledger.js";
import { moment } from "../parts/timestamps.js";
import { card } from "../parts/table.js";
import { readyFor, statePill } from "./campaigns.js";
import { artifactsCard, eventsCard, runsCard } from "./campaign_cards.js";
import { SETTLE_BEAT_MS, chartCard } from "./campaign_chart.js";
import { rolloutCard } from "./campaign_rollout.js";
import { LaunchVariants } from "./campaign_variants.js";
import { phaseTrack } from "./campaign_track.js";
import { messagesCard } from "./messages.js";
import { campaign as texts } from "../texts/campaigns.js";

const RUNS_SHOWN = 10;
const EVENTS_SHOWN = 30;
const EVENTS_BEFORE = 300;
const CHART_BUCKETS = 60;
const CHART_BEAT_MS = 3_000;
const SETTLE_BEATS_MOST = 40;
const SAME_BEATS = 2;
const UNDER_WAY = new Set(["in_progress", "paused"]);

export async function show(context) {
  const page = new CampaignPage(context);
  await page.load();
  stream.watch({
    cursors: () => page.cursors(),
    resync: () => page.resync(),
    onEvent: (event) => page.happened(event),
  });
}

class CampaignPage {
  #context;
  #definition;
  #runs;
  #artifacts;
  #events = [];
  #asked = 0;
  #note = null;
  #throughput = null;
  #chartAskedAt = 0;
  #settleBeats = 0;
  #settleTimer = null;
  #pauseWatched = null;
  #outage = null;
  #variants = null;

  constructor(context) {
    this.#context = context;
    this.draw = oncePerFrame(() => this.drawNow());
    this.live = new LiveCampaigns(() => this.draw(), context.signal);
  }

  get #path() {
    return `/campaigns/${segment(this.#context.id)}`;
  }

  get #view() {
    return this.live.view(this.#context.id);
  }

  async load() {
    const { signal, query } = this.#context;
    const ask = (path, asked) => get(this.#path + path, asked, { signal });
    const [snapshot, definition, runs, artifacts] = await Promise.all([
      ask("/status"),
      ask(""),
      ask("/runs", { limit: RUNS_SHOWN, after: query.after }),
      ask("/artifacts", { limit: RUNS_SHOWN }),
    ]);
    this.#definition = definition;
    this.#runs = runs;
    this.#artifacts = artifacts;
    this.live.put(snapshot);
    this.drawNow();
    this.#drawChart(true);
    this.#watchBlockers();
    this.#watchReceipts();
    this.#watchVariants();
  }

  #watchVariants() {
    if (this.#definition.messages.some(({ variants = [] }) => variants.length > 0)) {
      const launch = () => this.#view.phases.launch ?? {};
      this.#variants = new LaunchVariants({
        signal: this.#context.signal,
        runOf: () => launch().runId ?? null,
        isUnderWay: () => UNDER_WAY.has(launch().state),
        changed: () => this.draw(),
      });
    }
  }

  #watchBlockers() {
    watchBlockers({
      signal: this.#context.signal,
      isWanted: () => this.#outage !== null || this.#underWay() !== null,
      look: () => this.live.lookForBlockers(this.#context.id),
      said: (outage) => {
        this.#outage = outage;
        this.draw();
      },
    });
  }

  /** The phase that may have something to wait for. */
  #underWay() {
    const { phaseOrder, phases } = this.#view;
    return phaseOrder.find((phase) => UNDER_WAY.has(phases[phase].state)) ?? null;
  }

  async resync() {
    const { signal } = this.#context;
    this.live.put(await get(`${this.#path}/status`, {}, { signal }));
    this.#reloadRuns();
  }

  /** A little behind what is known: older events fill the feed, and the view drops them. */
  cursors() {
    const { campaignId, lastSequence } = this.#view;
    return new Map([[campaignId, Math.max(0, lastSequence - EVENTS_BEFORE)]]);
  }

  happened(event) {
    if (!this.live.ignores(event)) {
      this.#feed(event);
    }
    if (this.live.apply(event)) {
      if (event.type !== PROGRESS_EVENT) {
        this.#note = null;
        this.#reloadRuns();
        this.#context.frame.countTrouble();
      }
      this.#drawChart(event.type !== PROGRESS_EVENT);
    }
    this.draw();
  }

  /** Newest first; of a phase's progress only the last word between two other events. */
  #feed(event) {
    if (this.#events.some((other) => other.sequence >= event.sequence)) {
      return;
    }
    const [last, ...rest] = this.#events;
    const isMore = event.type === PROGRESS_EVENT && last?.type === PROGRESS_EVENT;
    this.#events = [event, ...(isMore ? rest : this.#events)].slice(0, EVENTS_SHOWN);
  }

  /** The answer to the last question counts: an older one may come after it. */
  async #reloadRuns() {
    const { signal, query } = this.#context;
    const question = (this.#asked += 1);
    try {
      const asked = { limit: RUNS_SHOWN, after: query.after };
      const found = await Promise.all([
        get(`${this.#path}/runs`, asked, { signal }),
        get(`${this.#path}/artifacts`, { limit: RUNS_SHOWN }, { signal }),
      ]);
      if (question === this.#asked) {
        [this.#runs, this.#artifacts] = found;
        this.draw();
      }
    } catch {
      // The next event tries again.
    }
  }

  /** What a stop leaves is skipped by the workers afterwards, and no event reports that. */
  #watchSettling(view) {
    const isSettling = view.phaseOrder.some((phase) =>
      view.phases[phase].state === "failed" && view.phases[phase].runStatus === "running");
    if (!isSettling) {
      this.#settleBeats = 0;
    } else if (this.#settleTimer === null && this.#settleBeats < SETTLE_BEATS_MOST) {
      this.#settleBeats += 1;
      this.#settleTimer = setTimeout(async () => {
        this.#settleTimer = null;
        if (!this.#context.signal.aborted) {
          await this.live.refresh(this.#context.id);
          await this.#reloadRuns();
        }
      }, SETTLE_BEAT_MS);
    }
  }

  /** While a phase is under way, its events report them. */
  #watchReceipts() {
    watchReceipts({
      signal: this.#context.signal,
      isWanted: () => Object.values(this.#view.phases).some(({ state, accounting }) =>
        !UNDER_WAY.has(state) && accounting?.delivery),
      look: () => this.live.refresh(this.#context.id),
    });
  }

  /** Calls under way end after a pause, which progress events do not report: the run's counts do. */
  async #watchPaused(view) {
    const phase = view.phaseOrder.find((each) => view.phases[each].state === "paused");
    const { sequence } = view.phases[phase] ?? {};
    if (!phase || sequence === this.#pauseWatched) {
      return;
    }
    this.#pauseWatched = sequence;
    for (let beats = 0, same = 0, before = null; beats < SETTLE_BEATS_MOST; beats += 1) {
      await new Promise((resolve) => setTimeout(resolve, SETTLE_BEAT_MS));
      if (this.#context.signal.aborted || this.#pauseWatched !== sequence
        || this.#view.phases[phase].state !== "paused") {
        return;
      }
      await this.#reloadRuns();
      const counted = this.#counted(this.#view.phases[phase]);
      const now = counted && ended(counted);
      same = now === before ? same + 1 : 0;
      before = now;
      if (same >= SAME_BEATS) {
        return;
      }
    }
  }

  /** Of a phase under way its run may know more than its last event, until the next one. */
  #counted({ state, runId, accounting }) {
    const run = UNDER_WAY.has(state) && this.#runs.items.find((each) => each.runId === runId);
    const isMore = run && (!accounting || ended(run.accounting) > ended(accounting));
    return isMore ? run.accounting : accounting;
  }

  /** The phase that is looked at: chosen, else under way, else the last that ran. */
  get #inspected() {
    const view = this.#view;
    const chosen = this.#context.query.phase;
    if (chosen && Object.hasOwn(view.phases, chosen)) {
      return chosen;
    }
    const ran = view.phaseOrder.filter((phase) => view.phases[phase].runId);
    return controlPhaseOf(view) ?? (ran.includes("launch") ? "launch" : ran.at(-1))
      ?? view.phaseOrder[0];
  }

  async #drawChart(isForced) {
    const runId = this.#view.phases[this.#inspected].runId;
    const now = Date.now();
    if (!runId || (!isForced && now - this.#chartAskedAt < CHART_BEAT_MS)) {
      return;
    }
    this.#chartAskedAt = now;
    try {
      const path = `/runs/${segment(runId)}/throughput`;
      this.#throughput = await get(path, { buckets: CHART_BUCKETS },
        { signal: this.#context.signal });
      this.draw();
    } catch {
      // A chart that is missing says nothing wrong.
    }
  }

  drawNow() {
    const { main, frame } = this.#context;
    const view = this.#view;
    if (!view || !this.#definition || this.#context.signal.aborted) {
      return;
    }
    this.#watchSettling(view);
    this.#watchPaused(view);
    const phase = this.#inspected;
    frame.head({
      title: view.name,
      crumbs: [[texts.campaigns, "#/campaigns"]],
      beside: statePill(view),
      actions: frame.canOperate && readyFor(view) &&
        nextButton(this.live, view, readyFor(view), (words) => this.#say(words)),
      under: [plural(view.recipients, "recipient"), texts.created,
        moment(this.#definition.createdAt), " · ", copyableId(view.campaignId)],
    });
    render(
      main,
      h(
        "div",
        { class: "stack" },
        h("div", {}, this.#track(view, phase),
          h("div", { class: "track-note", "aria-live": "polite" },
            this.#note && note(this.#note)),
          this.#blockers(view)),
        h(
          "div",
          { class: "columns-wide" },
          h("div", { class: "stack" }, this.#ledgerCard(view, phase), this.#rollout(view),
            this.#variants?.cards(frame.canOperate), this.#chartCard(view, phase),
            runsCard(this.#runs, this.#context, pausedRun(view)),
            messagesCard(view.campaignId, this.#definition.messages)),
          h("div", { class: "stack" }, eventsCard(this.#events),
            artifactsCard(this.#artifacts)),
        ),
      ),
    );
  }

  #track(view, inspected) {
    return phaseTrack(view, {
      context: this.#context,
      live: this.live,
      inspected,
      countedOf: (found) => this.#counted(found),
      say: (words) => this.#say(words),
    });
  }

  #blockers(view) {
    const { blockers, runId } = view.phases[this.#underWay()] ?? {};
    return blockerNotes(this.#outage ?? blockers, { runId });
  }

  #rollout(view) {
    return rolloutCard(view.phases.launch ?? {}, {
      canOperate: this.#context.frame.canOperate,
      done: () => this.live.refresh(this.#context.id),
    });
  }

  #chartCard(view, phase) {
    return chartCard(view, phase, {
      reported: this.live.samples(view.campaignId, phase),
      accounting: this.#counted(view.phases[phase]),
      throughput: this.#throughput,
    });
  }

  #say(words) {
    this.#note = words;
    this.draw();
  }

  #ledgerCard(view, phase) {
    const found = view.phases[phase];
    const counted = this.#counted(found);
    return card(
      texts.results(title(phase)),
      h("div", { class: "card-body stack" },
        counted ? this.#ledgers(found, counted, successName(phase))
          : h("p", { class: "muted" }, texts.notStarted),
        found.earlierInDoubt > 0 && note(
          texts.earlierInDoubt(plural(found.earlierInDoubt, "item")), "warn"),
        counted && doubtsNote(counted, { campaignId: view.campaignId })),
      found.runId && h("a", { class: "small", href: makeHash("runs", found.runId) },
        texts.viewRun),
    );
  }

  /** Of a launch that was retried, each message once as it ended; then what the last run did. */
  #ledgers(found, counted, success) {
    if (!(found.runs > 1 && found.outcome)) {
      return ledger(counted, success);
    }
    return [
      h("p", { class: "small muted", "data-figure": "runs" },
        texts.allRuns(found.runs)),
      ledger(outcomeAfter(found, counted), success),
      h("div", { class: "small muted", "data-figure": "latest-run" },
        texts.latestRun(inWords(counted, success))),
    ];
  }
}

function pausedRun(view) {
  return Object.values(view.phases).find(({ state }) => state === "paused")?.runId ?? null;
}
