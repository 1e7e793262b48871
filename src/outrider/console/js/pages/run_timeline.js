// The steps of a run over time, now or as they were after any event of its log.

import { h } from "../dom.js";
import { count, duration, plural, shortId } from "../state/format.js";
import { makeHash } from "../state/hash.js";
import { button } from "../parts/controls.js";
import { copyButton } from "../parts/copying.js";
import { empty } from "../parts/feedback.js";
import { pill } from "../parts/pill.js";
import { reasonSentence } from "../parts/sentences.js";
import { card } from "../parts/table.js";
import { runTimeline as texts } from "../texts/runs.js";

const STEPS_SHOWN = 60;
const SLIDE_WAIT_MS = 120;

export class Timeline {
  #log;
  #context;
  #redraw;
  #at = null;
  #past = null;
  #shown = STEPS_SHOWN;
  #timer = null;
  #fetching = null;

  constructor(log, context, redraw) {
    this.#log = log;
    this.#context = context;
    this.#redraw = redraw;
    context.signal.addEventListener("abort", () => {
      clearTimeout(this.#timer);
      this.#fetching?.abort();
    });
    const given = Number.parseInt(context.query.at ?? "", 10);
    this.#at = given >= 0 ? given : null;
  }

  /** The event that is looked at, with the run's snapshot then; null where that is now. */
  get past() {
    return this.#past && { at: this.#past.lastEventSeq, snapshot: this.#past };
  }

  async load() {
    if (this.#at !== null) {
      this.#past = await this.#log.snapshotAt(this.#at, this.#context.signal);
    }
  }

  draw() {
    const snapshot = this.#past ?? this.#log.snapshot;
    const steps = snapshot.steps;
    return card(
      null,
      [
        h("div", { class: "card-head" }, this.#slider()),
        h("div", { class: "card-head" },
          h("span", { class: "muted small" }, this.#past ? texts.atThatEvent : texts.now),
          pill(snapshot.status),
          h("span", { class: "muted small" }, plural(steps.length, "step"),
            snapshot.failedSteps > 0 && texts.failed(count(snapshot.failedSteps))),
          snapshot.rootCause && h("span", { class: "small breakable" },
            reasonSentence(snapshot.rootCause))),
        steps.length === 0
          ? empty("clock", texts.noJobs, texts.noJobsHint)
          : h("div", { class: "timeline", role: "list", "aria-label": texts.jobs },
            this.#steps(steps)),
        steps.length > this.#shown && h("div", { class: "pager" },
          texts.jobsShown(count(this.#shown), count(steps.length)),
          button(texts.showMore, { look: "small", onclick: () => this.#showMore() })),
      ],
    );
  }

  #slider() {
    const last = this.#log.view.lastEventSeq;
    const at = this.#at ?? last;
    const isHeld = this.#at !== null;
    const type = this.#log.view.events.find((event) => event.runSeq === at)?.eventType;
    return h(
      "div",
      { class: "travel travel-row" },
      h("label", { class: "strong small nowrap", for: "travel" }, texts.atEvent(at),
        type && h("span", { class: "muted" }, ` ${type}`)),
      h("div", { "data-key": isHeld ? "held" : texts.to(last), "data-keep": isHeld },
        h("input", {
          id: "travel",
          type: "range",
          min: 0,
          max: last,
          value: at,
          "aria-label": texts.position,
          "aria-valuetext": texts.event(at, type ? `, ${type}` : ""),
          oninput: (event) => this.#slide(Number(event.currentTarget.value)),
        })),
      button(texts.now, { look: "small", disabled: this.#at === null,
        onclick: () => this.#toNow() }),
    );
  }

  #slide(at) {
    this.#at = at;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#travel(at), SLIDE_WAIT_MS);
    this.#redraw();
  }

  async #travel(at) {
    this.#fetching?.abort();
    this.#fetching = new AbortController();
    try {
      this.#past = await this.#log.snapshotAt(at, this.#fetching.signal);
      this.#address({ at });
      this.#redraw();
    } catch {
      // Another place was asked for meanwhile.
    }
  }

  #toNow() {
    clearTimeout(this.#timer);
    this.#fetching?.abort();
    this.#at = null;
    this.#past = null;
    this.#address({ at: null });
    this.#redraw();
  }

  /** Shareable, without opening the page anew. */
  #address(change) {
    const { id, query } = this.#context;
    Object.assign(query, change);
    history.replaceState(null, "", makeHash("runs", id, query));
  }

  #showMore() {
    this.#shown += STEPS_SHOWN;
    this.#redraw();
  }

  #steps(steps) {
    let from = Infinity;
    let to = -Infinity;
    for (const { startedAt, completedAt } of steps) {
      for (const at of [startedAt, completedAt].filter(Boolean).map(Date.parse)) {
        from = Math.min(from, at);
        to = Math.max(to, at, from + 1);
      }
    }
    return steps.slice(0, this.#shown).map((step) => stepRow(step, from, to));
  }
}

function stepRow(step, from, to) {
  const begun = step.startedAt ? Date.parse(step.startedAt) : null;
  const ended = step.completedAt ? Date.parse(step.completedAt) : to;
  const share = (value) => `${((100 * (value - from)) / (to - from)).toFixed(2)}%`;
  const took = begun === null ? "" : duration(ended - begun);
  return h(
    "div",
    { class: "step", role: "listitem", "data-key": step.stepId },
    h("span", { class: "copyable nowrap" },
      h("span", { class: "mono", title: step.stepId }, shortId(step.stepId)),
      copyButton(step.stepId, texts.jobId)),
    h("div", { class: "step-lane", title: took },
      begun !== null && h("div", {
        class: `step-bar step-bar-${step.status.toLowerCase()}`,
        style: { left: share(begun), width: share(from + (ended - begun)) },
      })),
    h("div", { class: "step-words" },
      pill(step.status === "SUCCESS" && step.outcome === "partial" ? "partial" : step.status),
      h("span", { class: "nowrap", title: texts.logicalAttemptHint },
        texts.logicalAttempt(step.logicalAttemptId)),
      step.engineAttemptId && h("span",
        { class: "nowrap", title: texts.engineAttemptHint },
        texts.engineAttempt(step.engineAttemptId)),
      step.counts && h("span", { class: "nowrap" }, texts.succeeded(count(step.counts.sent))),
      took && h("span", { class: "nowrap" }, `· ${took}`)),
    step.error && h("div", { class: "step-error" }, `${step.error.code}: ${step.error.message}`),
    !step.error && step.reason && h("div", { class: "step-reason" }, step.reason),
  );
}
