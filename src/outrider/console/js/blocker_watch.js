// What holds something up begins and ends without an event: while it is under way, the page asks.

import { outageOf } from "./state/blockers.js";

const BEAT_MS = 3_000;

/**
 * `look` asks once; `isWanted` says whether there is anything to ask about. `said` is called with
 * what a server without its database says instead of an answer, and with null after each answer.
 */
export function watchBlockers({ signal, isWanted, look, said = () => {} }) {
  let isAsking = false;
  const beat = async () => {
    if (isAsking || document.visibilityState !== "visible" || !isWanted()) {
      return;
    }
    isAsking = true;
    try {
      await look();
      said(null);
    } catch (error) {
      const outage = outageOf(error);
      if (outage && !signal.aborted) {
        said(outage);
      }
    } finally {
      isAsking = false;
    }
  };
  const timer = setInterval(beat, BEAT_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
}
