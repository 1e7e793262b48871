// What a page shows of a run's log, by contract 002 §1.1: a hole in what was fetched is lag and no
// loss. The view is stale then, takes a snapshot, and goes on once that is past the hole.

export const EVENTS_KEPT = 1000;

export function emptyRunView(runId) {
  return {
    runId,
    status: "PENDING",
    lastEventSeq: 0,
    stale: false,
    holeEndsAt: 0,
    loggedSeq: 0,
    events: [],
  };
}

/** Show the log from here on only: what was before is fetched when somebody asks for it. */
export function beginLogAfter(view, runSeq) {
  return { ...view, loggedSeq: runSeq, events: [] };
}

export function hasHole(lastSeq, nextSeq) {
  return nextSeq > lastSeq + 1;
}

/** Events up to the watermark are only logged; newer ones move it, unless there is a hole. */
export function applyRunEvents(view, page) {
  let { lastEventSeq, loggedSeq, stale, holeEndsAt } = view;
  const added = [];
  for (const event of page) {
    const { runSeq } = event;
    if (runSeq <= loggedSeq) {
      continue;
    }
    if (runSeq > lastEventSeq) {
      if (stale || hasHole(lastEventSeq, runSeq)) {
        stale = true;
        holeEndsAt = Math.max(holeEndsAt, runSeq);
        break;
      }
      lastEventSeq = runSeq;
    }
    loggedSeq = runSeq;
    added.push(event);
  }
  if (added.length === 0 && stale === view.stale && holeEndsAt === view.holeEndsAt) {
    return view;
  }
  const events = [...view.events, ...added].slice(-EVENTS_KEPT);
  return { ...view, lastEventSeq, loggedSeq, stale, holeEndsAt, events };
}

/** What was logged before the view began, put in front. */
export function prependRunEvents(view, page) {
  const first = view.events.length > 0 ? view.events[0].runSeq : Infinity;
  const earlier = page.filter((event) => event.runSeq < first);
  return earlier.length === 0 ? view : { ...view, events: [...earlier, ...view.events] };
}

/** A snapshot older than what is known says nothing; one past the hole ends the staleness. */
export function applyRunSnapshot(view, snapshot) {
  if (snapshot.lastEventSeq < view.lastEventSeq) {
    return view;
  }
  return {
    ...view,
    status: snapshot.status,
    lastEventSeq: snapshot.lastEventSeq,
    stale: snapshot.lastEventSeq < view.holeEndsAt,
  };
}

/** A run's accounting as it was at a snapshot: what no job had settled then was waiting. */
export function accountingAt(intended, { steps }) {
  const all = { sent: 0, failed: 0, skipped: 0 };
  for (const { counts } of steps) {
    for (const part of counts ? Object.keys(all) : []) {
      all[part] += counts[part];
    }
  }
  const ended = all.sent + all.failed + all.skipped;
  const whole = Math.max(intended, ended);
  return { intended: whole, waiting: whole - ended, inDoubt: 0, ...all };
}
