// The reconnect protocol of contract 003 §8 as a state machine: no event is applied between a
// disconnect and the snapshot after it. It knows no network and no clock; `step` takes what
// happened, and says what to do next.

export const FIRST_WAIT_MS = 500;
export const LONGEST_WAIT_MS = 5_000;
export const HELD_MOST = 1_000;

/** phase: idle, connecting, resyncing, live, waiting or offline. */
export function idle() {
  return { phase: "idle", failures: 0, needsSnapshot: false, held: [], waitMs: 0 };
}

/** A wait that doubles; `jitter` is from 0 to 1, and takes away up to a quarter. */
export function waitMs(failures, jitter) {
  const whole = Math.min(FIRST_WAIT_MS * 2 ** Math.max(failures - 1, 0), LONGEST_WAIT_MS);
  return Math.round(whole * (1 - jitter / 4));
}

/** What follows from what happened: the next state, and the effects to carry out in order. */
export function step(state, happened) {
  switch (happened.type) {
    case "watch":
      return result({ ...idle(), phase: "connecting" }, { type: "connect" });
    case "close":
      return result(idle(), { type: "disconnect" });
    case "opened":
      return opened(state);
    case "event":
      return arrived(state, happened.event);
    case "resynced":
      return resynced(state);
    case "lost":
      return lost(state, happened.jitter ?? 0);
    case "due":
      return state.phase === "waiting" ? connecting(state) : result(state);
    case "offline":
      return state.phase === "idle"
        ? result(state)
        : result(broken(state, "offline"), { type: "disconnect" });
    case "online":
      return state.phase === "offline" || state.phase === "waiting"
        ? connecting({ ...state, failures: 0 })
        : result(state);
    default:
      return result(state);
  }
}

/** The first connection begins where the page's snapshot ends; every later one needs a new one. */
function opened(state) {
  if (state.phase !== "connecting") {
    return result(state);
  }
  if (state.needsSnapshot) {
    return result({ ...state, phase: "resyncing" }, { type: "fetch_snapshots" });
  }
  return result({ ...state, phase: "live", failures: 0 });
}

function arrived(state, event) {
  if (state.phase === "live") {
    return result(state, { type: "apply", events: [event] });
  }
  if (state.phase === "resyncing") {
    // Too many to hold are as good as a lost connection: the next snapshot has them.
    return state.held.length < HELD_MOST
      ? result({ ...state, held: [...state.held, event] })
      : lost(state, 0);
  }
  return result(state);
}

function resynced(state) {
  if (state.phase !== "resyncing") {
    return result(state);
  }
  const next = { ...state, phase: "live", failures: 0, needsSnapshot: false, held: [] };
  return result(next, { type: "apply", events: state.held });
}

function lost(state, jitter) {
  if (state.phase === "idle" || state.phase === "offline" || state.phase === "waiting") {
    return result(state);
  }
  const failures = state.failures + 1;
  const wait = waitMs(failures, jitter);
  const next = { ...broken(state, "waiting"), failures, waitMs: wait };
  return result(next, { type: "disconnect" }, { type: "wait", ms: wait });
}

function connecting(state) {
  return result({ ...state, phase: "connecting", waitMs: 0 }, { type: "connect" });
}

function broken(state, phase) {
  return { ...state, phase, needsSnapshot: true, held: [] };
}

function result(state, ...effects) {
  return { state, effects };
}
