// Sentences and labels shared by many pages: tables, charts, dialogs, states.

/** parts/chart.js */
export const chart = {
  label: (rate) => `Items finished over time, at most ${rate}`,
  peak: (rate) => `peak ${rate}`,
};

/** parts/copying.js */
export const copying = {
  copy: (what) => `Copy ${what}`,
  notAllowed: "This browser does not allow copying here. Select the text instead.",
  copied: "Copied",
};

/** parts/dialog.js */
export const dialog = {
  cancel: "Cancel",
  done: "Done",
};

/** parts/feedback.js */
export const feedback = {
  dismiss: "Dismiss",
  request: "Request ",
  loading: "Loading",
};

/** parts/pill.js */
export const pill = {
  inProgress: "In progress",
  notStarted: "Not started",
  inDoubt: "In doubt",
  guess: "Requested; the server has not confirmed it yet",
};

/** parts/table.js */
export const table = {
  actions: "Actions",
  pages: "Pages",
  firstPage: "First page",
  nextPage: "Next page",
};

/** parts/words.js */
export const words = {
  start: "Start",
  pause: "Pause",
  resume: "Resume",
  stop: "Stop",
  retry: "Retry",
  runAgain: "Run again",
  attemptAndCall: (attempt, call) => `${attempt} (call ${call})`,
  waitsForApproval: "Waiting for approval",
  waitsForRoom: "Waiting for capacity",
  stopped: "stopped",
  events: {
    phase_started: "started",
    phase_paused: "paused",
    phase_resumed: "resumed",
    phase_completed: "completed",
    phase_failed: "failed",
    campaign_progress: "progressed",
  },
};
