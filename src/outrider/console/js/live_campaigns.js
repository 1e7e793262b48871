// The campaigns that a page shows, kept true: snapshots, events, guesses and their corrections.

import { ApiError, get, newKey, post, segment } from "./api.js";
import * as views from "./state/campaign_view.js";
import { addSample, sampleOf } from "./state/throughput.js";

/** Clicks on one campaign that wait for the answer to an earlier one; more are not taken. */
const CONTROLS_WAITING_MOST = 5;
const NOTHING = { sent: 0, failed: 0, skipped: 0 };

export class LiveCampaigns {
  #views = new Map();
  #samples = new Map();
  #fetching = new Map();
  #controls = new Map();
  #changed;
  #signal;

  /** `changed` is called with a campaign's id after each change of what may be shown. */
  constructor(changed, signal) {
    this.#changed = changed;
    this.#signal = signal;
  }

  put(snapshot) {
    const before = this.#views.get(snapshot.campaignId);
    this.#set(views.applySnapshot(before ?? null, snapshot));
  }

  /** These campaigns, and no other any more. */
  only(snapshots) {
    const known = new Set(snapshots.map(({ campaignId }) => campaignId));
    for (const campaignId of this.#views.keys()) {
      if (!known.has(campaignId)) {
        this.#views.delete(campaignId);
        this.#samples.delete(campaignId);
      }
    }
    snapshots.forEach((snapshot) => this.put(snapshot));
  }

  view(campaignId) {
    return this.#views.get(campaignId);
  }

  /** Ended items of the phase's last run over time, as events reported them. */
  samples(campaignId, phase) {
    return this.#samples.get(campaignId)?.get(phase) ?? [];
  }

  cursors() {
    return new Map([...this.#views].map(([id, view]) => [id, view.lastSequence]));
  }

  /** Whether the event says nothing that may be shown: late progress. */
  ignores(event) {
    const view = this.#views.get(event.campaignId);
    return view !== undefined && views.ignores(view, event);
  }

  /** Whether it was news. */
  apply(event) {
    const view = this.#views.get(event.campaignId);
    if (!view) {
      return false;
    }
    const next = views.applyEvent(view, event);
    if (views.ignores(view, event)) {
      const { phase, sequence, campaignId } = event;
      console.warn("campaign_progress ignored",
        { campaignId, phase, sequence, state: views.stateOf(view, phase) });
    } else {
      this.#note(event);
    }
    if (next === view) {
      return false;
    }
    this.#set(next);
    if (views.wantsSnapshot(event)) {
      this.refresh(event.campaignId);
    }
    return true;
  }

  /** Only what holds the campaign's phases up: it comes with no event. */
  async lookForBlockers(campaignId) {
    const path = `/campaigns/${segment(campaignId)}/status`;
    const snapshot = await get(path, {}, { signal: this.#signal });
    const view = this.#views.get(campaignId);
    if (view) {
      this.#set(views.applyBlockers(view, snapshot));
    }
  }

  /**
   * One fetch at a time for each campaign; what happens meanwhile has it fetched once more, and a
   * snapshot that an event overtook is not applied. One older than what was known when it was asked
   * for is: then the server itself went back, and a snapshot always wins.
   */
  async refresh(campaignId) {
    if (this.#fetching.has(campaignId)) {
      this.#fetching.set(campaignId, true);
      return;
    }
    try {
      do {
        this.#fetching.set(campaignId, false);
        const path = `/campaigns/${segment(campaignId)}/status`;
        const knownBefore = this.#views.get(campaignId).lastSequence;
        const snapshot = await get(path, {}, { signal: this.#signal });
        if (!this.#views.has(campaignId)) {
          return;
        }
        const { lastSequence } = this.#views.get(campaignId);
        if (snapshot.lastSequence >= lastSequence || snapshot.lastSequence < knownBefore) {
          this.put(snapshot);
        } else {
          this.#fetching.set(campaignId, true);
        }
      } while (this.#fetching.get(campaignId));
    } catch {
      // The stream's next reconnect, or the next turning point, fetches it again.
    } finally {
      this.#fetching.delete(campaignId);
    }
  }

  /**
   * Ask for something, shown at once, and sent when what was asked for before it is answered: each
   * then expects the state that the one before it led to. What the server refuses corrects the view
   * and is no error: the answer is then a note to show beside the phase. Another failure is thrown.
   */
  async control(campaignId, phase, action, body = {}) {
    const { waiting = 0, last = null } = this.#controls.get(campaignId) ?? {};
    if (waiting >= CONTROLS_WAITING_MOST) {
      return null;
    }
    const guessId = newKey();
    const isQueued = waiting > 0;
    this.#set(views.guess(this.#views.get(campaignId), phase, action, guessId, { isQueued }));
    const sent = this.#afterLast(last, { campaignId, phase, action, body, guessId });
    this.#controls.set(campaignId, { waiting: waiting + 1, last: sent });
    try {
      return (await sent).refusal;
    } finally {
      const now = this.#controls.get(campaignId);
      this.#controls.set(campaignId, { ...now, waiting: now.waiting - 1 });
    }
  }

  async #afterLast(last, asked) {
    let answered = null;
    try {
      answered = (await last)?.answer ?? null;
    } catch {
      // Its caller gets the error; this one is tried anyway.
    }
    return this.#send(asked, answered);
  }

  /** `before` is the answer to the control before it, whose event may not have come yet. */
  async #send({ campaignId, phase, action, body, guessId }, before) {
    const view = this.#views.get(campaignId);
    const isNews = before?.phase === phase && before.sequence > view.lastSequence;
    const expected = isNews ? before.state : view.phases[phase].state;
    this.#set(views.sendGuess(view, phase, guessId, isNews ? before.sequence : 0));
    const update = (change) => this.#set(change(this.#views.get(campaignId)));
    try {
      const path = `/campaigns/${segment(campaignId)}/phases/${segment(phase)}/${action}`;
      const answer = await post(path, body, { key: guessId, query: { expected_state: expected } });
      update((current) => views.confirmGuess(current, answer, guessId));
      return { refusal: null, answer };
    } catch (error) {
      if (error instanceof ApiError && error.isConflict) {
        const state = error.error.current_state;
        update((current) =>
          state
            ? views.correct(current, phase, state, guessId)
            : views.withdraw(current, phase, guessId),
        );
        return { refusal: error, answer: null };
      }
      update((current) => views.withdraw(current, phase, guessId));
      throw error;
    }
  }

  /** Also of events that are older than the view: they are how it went until now. */
  #note(event) {
    const { campaignId, phase, payload, type } = event;
    const at = Date.parse(event.timestamp);
    if (!this.#samples.has(campaignId)) {
      this.#samples.set(campaignId, new Map());
    }
    const phases = this.#samples.get(campaignId);
    if (type === "phase_started") {
      phases.set(phase, [sampleOf(NOTHING, at)]);
    } else if (payload?.accounting) {
      const before = this.samples(campaignId, phase);
      phases.set(phase, addSample(before, sampleOf(payload.accounting, at)));
    }
  }

  #set(view) {
    if (view && this.#views.get(view.campaignId) !== view) {
      this.#views.set(view.campaignId, view);
      this.#changed(view.campaignId);
    }
  }
}

/** A line of the list in the snapshot's shape: the phase it counts has the counts. */
export function snapshotOfLine(line) {
  const phases = {};
  for (const { phase, state, reason, runStatus, scheduledFor } of line.phases) {
    const counted = phase === line.phase;
    phases[phase] = {
      state,
      reason,
      runStatus,
      scheduledFor,
      progressPercentage: counted ? line.progressPercentage : 0,
      accounting: counted ? line.accounting : null,
      outcome: counted ? line.outcome : null,
      runId: counted ? line.runId : null,
    };
  }
  return {
    campaignId: line.campaignId,
    name: line.name,
    recipients: line.recipients,
    phaseOrder: line.phases.map(({ phase }) => phase),
    phases,
    lastSequence: line.lastSequence,
  };
}
