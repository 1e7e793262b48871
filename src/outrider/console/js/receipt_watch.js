// Providers report for days after a run has ended, and no event reports that: the page asks.

const BEAT_MS = 5_000;

/** `look` asks once; `isWanted` says whether there is anything to ask about. A page that nobody looks
 * at does not ask. */
export function watchReceipts({ signal, isWanted, look }) {
  let isAsking = false;
  const beat = async () => {
    if (isAsking || document.visibilityState !== "visible" || !isWanted()) {
      return;
    }
    isAsking = true;
    try {
      await look();
    } catch {
      // The next beat tries again.
    } finally {
      isAsking = false;
    }
  };
  const timer = setInterval(beat, BEAT_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
}
