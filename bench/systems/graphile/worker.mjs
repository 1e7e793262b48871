// graphile-worker: jobs added in batches, worked on by processes that each fetch batches of jobs.
// The same measures, and the same lines to the parent, as systems/measures.py and child.py.
import { fork } from "node:child_process";
import { createRequire } from "node:module";
import readline from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

const WARM_UP_SHARE = 10;
const LOOK_MS = 20;
const STALLED_MS = 120_000;
const SETTLE_MS = 2_000;
const WARM_UP_SAMPLES = 5;
const REST_MS = [20, 80];
const LATENCY_MS = 60_000;
const TELL_MS = 5;
// Its docs ("Performance", quick stats): the set-up of its own figures.
const CONCURRENT_JOBS = 24;
const LOCAL_QUEUE = 500;
const ADDED_AT_ONCE = 5_000;

const { version } = createRequire(import.meta.url)("graphile-worker/package.json");
const quiet = new Logger(() => () => {});
const isWorker = process.argv[2] === "work";
const request = JSON.parse(process.argv[isWorker ? 3 : 2]);

function preset() {
  return {
    worker: {
      connectionString: request.database,
      logger: quiet,
      concurrentJobs: CONCURRENT_JOBS,
      maxPoolSize: CONCURRENT_JOBS + 1,
      localQueue: { size: LOCAL_QUEUE },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
    },
  };
}

async function work() {
  let handled = 0;
  let telling = false;
  // Only after work: an idle worker must not be charged for a timer of ours.
  const tell = () => {
    telling = false;
    process.send({ handled });
  };
  const noop = async () => {
    if (request.measure === "latency") process.send({ started: String(process.hrtime.bigint()) });
    handled += 1;
    if (!telling) {
      telling = true;
      setTimeout(tell, TELL_MS);
    }
  };
  process.on("disconnect", () => process.exit(0));
  process.send("ready");
  await new Promise((resolve) => process.once("message", resolve));
  await run({ preset: preset(), taskList: { noop }, noHandleSignals: true });
}

class Crew {
  constructor() {
    this.handledBy = new Map();
    this.onStart = () => {};
  }

  async start() {
    this.processes = Array.from({ length: request.workers }, () =>
      fork(process.argv[1], ["work", JSON.stringify(request)]),
    );
    await Promise.all(
      this.processes.map((worker) => new Promise((ready) => worker.once("message", ready))),
    );
    for (const worker of this.processes) {
      worker.on("message", (said) => {
        if (said.started) this.onStart(BigInt(said.started));
        if (said.handled) this.handledBy.set(worker.pid, said.handled);
      });
    }
  }

  go() {
    for (const worker of this.processes) worker.send("go");
  }

  handled() {
    return [...this.handledBy.values()].reduce((sum, each) => sum + each, 0);
  }

  stop() {
    for (const worker of this.processes) worker.kill("SIGKILL");
  }
}

const lines = isWorker ? null : readline.createInterface({ input: process.stdin });
const incoming = lines?.[Symbol.asyncIterator]();

async function say(line) {
  process.stdout.write(`${line}\n`);
  await incoming.next();
}

async function measure() {
  const utils = await makeWorkerUtils({ connectionString: request.database, logger: quiet });
  await utils.migrate();
  const database = new pg.Client({ connectionString: request.database });
  await database.connect();
  const crew = new Crew();
  await crew.start();
  const results = { version, timings: {}, latencies_ms: [] };

  async function enqueue(count) {
    for (let start = 0; start < count; start += ADDED_AT_ONCE) {
      const size = Math.min(ADDED_AT_ONCE, count - start);
      await utils.addJobs(
        Array.from({ length: size }, () => ({
          identifier: "noop",
          payload: { to: "+447700900123" },
        })),
      );
    }
  }

  // A job that has ended is deleted: that is its record. None may have been tried in vain.
  async function left() {
    const answer = await database.query(
      "SELECT count(*)::int AS left, count(last_error)::int AS failed" +
        " FROM graphile_worker._private_jobs",
    );
    if (answer.rows[0].failed) throw new Error(`${answer.rows[0].failed} jobs failed`);
    return answer.rows[0].left;
  }

  async function untilHandled(count) {
    let last = -1;
    let changed = Date.now();
    while (crew.handled() < count) {
      if (crew.handled() !== last) [last, changed] = [crew.handled(), Date.now()];
      if (Date.now() - changed > STALLED_MS) throw new Error(`${last} of ${count} ended`);
      await sleep(LOOK_MS);
    }
  }

  async function untilEmpty() {
    while ((await left()) > 0) await sleep(LOOK_MS);
  }

  const seconds = (since) => Number(process.hrtime.bigint() - since) / 1e9;
  const now = () => process.hrtime.bigint();

  if (request.measure === "phases") {
    await say("begin");
    let began = now();
    await enqueue(request.count);
    results.timings.enqueue = [request.count, seconds(began)];
    began = now();
    crew.go();
    await untilHandled(request.count);
    await untilEmpty();
    results.timings.drain = [request.count, seconds(began)];
    if (crew.handled() !== request.count) throw new Error(`handled ${crew.handled()}`);
  } else if (request.measure === "end_to_end") {
    crew.go();
    const warmUp = Math.max(1, Math.floor(request.count / WARM_UP_SHARE));
    await enqueue(warmUp);
    await untilHandled(warmUp);
    await untilEmpty();
    await say("begin");
    const began = now();
    await enqueue(request.count);
    await untilHandled(warmUp + request.count);
    await untilEmpty();
    results.timings.end_to_end = [request.count, seconds(began)];
    if (crew.handled() !== warmUp + request.count) throw new Error(`handled ${crew.handled()}`);
  } else if (request.measure === "waiting") {
    const total = Math.max(request.waiting, request.count);
    await enqueue(total);
    await say("begin");
    const began = now();
    crew.go();
    await untilHandled(request.count);
    const ended = total - (await left());
    results.timings.waiting = [ended, seconds(began)];
  } else if (request.measure === "latency") {
    crew.go();
    await say("begin");
    const until = Date.now() + LATENCY_MS;
    for (let number = 0; number < request.samples + WARM_UP_SAMPLES; number += 1) {
      if (Date.now() > until) break;
      await sleep(REST_MS[0] + Math.random() * (REST_MS[1] - REST_MS[0]));
      const started = new Promise((resolve) => (crew.onStart = resolve));
      const enqueued = now();
      await utils.addJob("noop", { to: String(number) });
      const latency = Number((await started) - enqueued) / 1e6;
      if (number >= WARM_UP_SAMPLES) results.latencies_ms.push(latency);
    }
  } else if (request.measure === "idle") {
    crew.go();
    await sleep(SETTLE_MS);
    await say("begin");
    await sleep(request.seconds * 1000);
  } else {
    throw new Error(`nobody knows how to measure ${request.measure}`);
  }
  await say(JSON.stringify(results));
  crew.stop();
  process.exit(0);
}

try {
  await (isWorker ? work() : measure());
} catch (error) {
  console.error(error.message);
  process.exit(1);
}
