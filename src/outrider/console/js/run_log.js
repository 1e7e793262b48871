// A run's log as a page follows it: a snapshot, then pages of events, by contract 002 §1.1.
// There is no stream of it: it is fetched after each campaign event, at most once a second.

import { get, segment } from "./api.js";
import * as views from "./state/run_view.js";

const BEAT_MS = 1_000;
const PAGE = 200;
const LOG_BEGINS_BEFORE = 200;
const PAGES_MOST = 10;
const RESYNCS_MOST = 5;
const ENDED = new Set(["COMPLETED", "FAILED", "CANCELLED"]);

export class RunLog {
  #path;
  #signal;
  #changed;
  #timer = null;
  #isWanted = false;
  view;
  snapshot = null;

  constructor(runId, changed, signal) {
    this.#path = `/runs/${segment(runId)}`;
    this.#signal = signal;
    this.#changed = changed;
    this.view = views.emptyRunView(runId);
    signal.addEventListener("abort", () => clearTimeout(this.#timer));
  }

  async load() {
    await this.#takeSnapshot();
    const begin = Math.max(0, this.view.lastEventSeq - LOG_BEGINS_BEFORE);
    this.view = views.beginLogAfter(this.view, begin);
    await this.#takeEvents();
  }

  get hasEnded() {
    return ENDED.has(this.view.status) && !this.view.stale;
  }

  get beginsAt() {
    return this.view.events[0]?.runSeq ?? 0;
  }

  /** Something happened: look soon, and once for all that happens until then. */
  poke() {
    if (this.#timer !== null || this.#signal.aborted) {
      this.#isWanted = true;
      return;
    }
    this.#timer = setTimeout(() => this.#look(), 0);
  }

  async showEarlier() {
    const after = Math.max(0, this.beginsAt - 1 - PAGE);
    const page = await this.#fetchEvents(after);
    this.view = views.prependRunEvents(this.view, page.items);
    this.#changed();
  }

  snapshotAt(runSeq, signal) {
    return get(`${this.#path}/snapshot`, { at: runSeq }, { signal });
  }

  async #look() {
    this.#isWanted = false;
    try {
      await this.#takeEvents();
      await this.#takeSnapshot();
    } catch {
      // The next beat tries again.
    }
    if (this.#signal.aborted) {
      return;
    }
    this.#changed();
    this.#timer = setTimeout(() => {
      this.#timer = null;
      if (this.#isWanted || this.view.stale) {
        this.poke();
      }
    }, BEAT_MS);
  }

  async #takeEvents() {
    let resyncs = 0;
    for (let pages = 0; pages < PAGES_MOST; pages += 1) {
      const page = await this.#fetchEvents(this.view.loggedSeq);
      this.view = views.applyRunEvents(this.view, page.items);
      if (this.view.stale && resyncs < RESYNCS_MOST) {
        resyncs += 1;
        this.#changed();
        await this.#takeSnapshot();
      } else if (page.next === null) {
        return;
      }
    }
  }

  async #takeSnapshot() {
    this.snapshot = await get(`${this.#path}/snapshot`, {}, { signal: this.#signal });
    this.view = views.applyRunSnapshot(this.view, this.snapshot);
  }

  #fetchEvents(after) {
    return get(`${this.#path}/events`, { after, limit: PAGE }, { signal: this.#signal });
  }
}
