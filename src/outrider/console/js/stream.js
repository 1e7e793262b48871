// The tab's one event stream. `state/reconnect.js` decides; this carries it out with a real
// EventSource, a real timer and the page's own way to fetch snapshots.

import { ApiError, session } from "./api.js";
import { idle, step } from "./state/reconnect.js";
import { PROGRESS_EVENT, STATE_SET_BY } from "./state/phase_machine.js";

export const CAMPAIGNS_MOST = 50;
const TYPES = [...Object.keys(STATE_SET_BY), PROGRESS_EVENT];

class Stream {
  #state = idle();
  #source = null;
  #timer = null;
  #watched = null;
  #begins = new Map();
  #listeners = new Set();
  #dueAt = 0;
  #signedOut = () => {};

  constructor() {
    addEventListener("offline", () => this.#happen({ type: "offline" }));
    addEventListener("online", () => this.#happen({ type: "online" }));
  }

  /**
   * Watch what a page shows, and nothing of the page before.
   * cursors: () => Map of campaign to its last sequence; resync: fetches and applies snapshots;
   * onEvent: applies one event.
   */
  watch(watched) {
    this.close();
    if (watched.cursors().size > 0) {
      this.#watched = watched;
      this.#happen({ type: "watch" });
    }
  }

  /** The page shows other campaigns now: another connection, behind what it knows. */
  close() {
    this.#watched = null;
    this.#happen({ type: "close" });
  }

  get status() {
    const seconds = Math.max(1, Math.ceil((this.#dueAt - Date.now()) / 1000));
    return { phase: this.#state.phase, seconds };
  }

  /** Gives back how to stop listening. */
  onStatus(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  whenSignedOut(handler) {
    this.#signedOut = handler;
  }

  #happen(happened) {
    const { state, effects } = step(this.#state, happened);
    this.#state = state;
    effects.forEach((effect) => this.#carryOut(effect));
    this.#listeners.forEach((listener) => listener(this.status));
  }

  #carryOut(effect) {
    switch (effect.type) {
      case "connect":
        this.#connect();
        break;
      case "disconnect":
        this.#disconnect();
        break;
      case "wait":
        this.#dueAt = Date.now() + effect.ms;
        this.#timer = setTimeout(() => this.#happen({ type: "due" }), effect.ms);
        break;
      case "fetch_snapshots":
        this.#resync();
        break;
      case "apply":
        effect.events.forEach((event) => this.#watched?.onEvent(event));
        break;
    }
  }

  #connect() {
    clearTimeout(this.#timer);
    this.#begins = this.#watched.cursors();
    const cursor = [...this.#begins]
      .slice(0, CAMPAIGNS_MOST)
      .map(([campaignId, sequence]) => `${campaignId}@${sequence}`)
      .join(",");
    const source = new EventSource(`/api/v2/stream?campaigns=${encodeURIComponent(cursor)}`);
    const isMine = () => this.#source === source;
    this.#source = source;
    source.addEventListener("open", () => isMine() && this.#happen({ type: "opened" }));
    source.addEventListener("error", () => isMine() && this.#lost());
    for (const type of TYPES) {
      source.addEventListener(type, (message) => {
        if (isMine()) {
          this.#happen({ type: "event", event: JSON.parse(message.data) });
        }
      });
    }
  }

  #disconnect() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
  }

  async #lost() {
    this.#happen({ type: "lost", jitter: Math.random() });
    try {
      await session.current();
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) {
        this.close();
        this.#signedOut();
      }
    }
  }

  /** The server went back, as to a backup: the stream would be silent until it is there again. */
  #isAhead() {
    const known = this.#watched.cursors();
    return [...this.#begins].some(([campaignId, sequence]) => sequence > known.get(campaignId));
  }

  async #resync() {
    const watched = this.#watched;
    try {
      await watched.resync();
      if (this.#watched === watched) {
        this.#happen({ type: this.#isAhead() ? "lost" : "resynced" });
      }
    } catch {
      if (this.#watched === watched) {
        this.#happen({ type: "lost", jitter: Math.random() });
      }
    }
  }
}

export const stream = new Stream();
