// Who is at work: each worker, since when, of which version, and what it holds.

import { get } from "../api.js";
import { h, render } from "../dom.js";
import { plural, title } from "../state/format.js";
import { makeHash } from "../state/hash.js";
import { copyableId } from "../parts/copying.js";
import { empty, note } from "../parts/feedback.js";
import { moment, span } from "../parts/timestamps.js";
import { pill, tag } from "../parts/pill.js";
import { card, table } from "../parts/table.js";
import { workers as texts } from "../texts/operations.js";

const BEAT_MS = 5_000;

export async function show(context) {
  const { main, signal, frame } = context;
  frame.head({ title: texts.workers, under: texts.about });
  draw(main, await get("/workers", {}, { signal }));
  const beat = setInterval(async () => {
    try {
      draw(main, await get("/workers", {}, { signal }));
    } catch {
      // The next beat tries again; the frame says when the server is away.
    }
  }, BEAT_MS);
  signal.addEventListener("abort", () => clearInterval(beat));
}

function draw(main, { items }) {
  const versions = new Set(items.map(({ version }) => version).filter(Boolean));
  render(
    main,
    h("div", { class: "stack" },
      versions.size > 1 && note(texts.mixedVersions([...versions].sort().join(", ")), "warn"),
      card(null, items.length === 0
        ? empty("workers", texts.none, texts.noneHint)
        : table(texts.workers, COLUMNS, items, (worker) => worker.workerId))),
  );
}

const COLUMNS = [
  { name: texts.worker, of: (worker) => h("div", {},
    copyableId(worker.workerId, { what: texts.workerId }),
    h("div", { class: "muted small breakable" }, texts.process(worker.host, worker.pid))) },
  { name: texts.state, of: (worker) => pill(worker.isAlive ? "completed" : "failed",
    { words: worker.isAlive ? texts.alive : texts.silent }) },
  { name: texts.role, of: (worker) => title(worker.role) },
  { name: texts.holds, kind: "name", of: (worker) => h("div", { class: "reading" },
    worker.holds.length === 0 ? h("span", { class: "muted" }, texts.nothing)
      : worker.holds.map(held)) },
  { name: texts.takes, of: (worker) => [worker.targets?.join(", ") ?? texts.everything,
    worker.mode && ` · ${worker.mode}`] },
  { name: texts.version, of: (worker) => worker.version },
  { name: texts.running, kind: "number", of: (worker) => span(worker.startedAt) },
  { name: texts.lastSeen, kind: "number", of: (worker) => moment(worker.seenAt) },
];

/** Its jobs of one run, or its single messages of one target. */
function held({ runId, submissionTarget, jobs, since }) {
  return h("div", { class: "button-row" }, tag(submissionTarget),
    runId ? h("a", { href: makeHash("runs", runId) }, plural(jobs, "job"))
      : plural(jobs, "lane"),
    h("span", { class: "muted small" }, texts.since, moment(since)));
}
