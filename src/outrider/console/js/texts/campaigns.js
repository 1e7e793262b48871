// Sentences and labels about campaigns and their phases.

/** pages/campaign.js */
export const campaign = {
  campaigns: "Campaigns",
  created: " · created ",
  results: (name) => `${name} results`,
  notStarted: "Results appear once the phase has started.",
  earlierInDoubt: (items) => `Still in doubt from earlier runs: ${items}.`,
  viewRun: "View run",
  allRuns: (runs) =>
    `All ${runs} runs combined: each message is counted once, by its final outcome.`,
  latestRun: (inWords) => `Latest run only: ${inWords}.`,
};

/** pages/campaign_chart.js */
export const campaignChart = {
  throughput: "Throughput",
  noChartYet: "The chart appears once the first batch has finished.",
  now: " now",
  timeLeft: (duration) => `about ${duration} left`,
};

/** pages/campaign_track.js */
export const campaignTrack = {
  phases: "Phases",
  reviewRun: "Review and approve",
  starts: "Starts ",
  reason: "Reason: ",
};

/** pages/campaign_rollout.js */
export const campaignRollout = {
  heading: "Rollout",
  step: "Step",
  state: "State",
  items: "Messages",
  note: "Note",
  percent: (percent) => `${percent} %`,
  states: { waiting: "Waiting", sending: "Sending", holding: "Being watched", done: "Done" },
  rates: { failureRate: "failures", bounceRate: "bounces", complaintRate: "complaints",
    silenceRate: "missing receipts" },
  haltedFor: (rates) => `Paused the launch: too many ${rates}`,
  holdUntil: "Next step at ",
  afterTheOneBefore: "Follows the step before it",
  released: "Released ",
  by: (who) => ` by ${who}`,
  advance: (percent) => `Release ${percent} % now`,
  advanceHint: (messages) =>
    `${messages} are sent now, without waiting for the rest of this step's time. This cannot be undone.`,
  advanceConfirm: "Release now",
};

/** pages/campaign_variants.js */
export const campaignVariants = {
  heading: (message) => `Variants of ${message}`,
  variant: "Variant",
  items: "Assigned",
  sent: "Sent",
  rates: { delivered: "Delivered", read: "Read", replied: "Replied" },
  winner: "Winner",
  chosenBy: (who) => `Chosen by ${who}`,
  send: "Send this one",
  sendOf: (variant) => `Send variant ${variant}`,
  hint: (message) => `The last step of the rollout is sent this variant of ${message}. ` +
    "This cannot be undone.",
  confirm: "Choose it",
};

/** pages/campaign_cards.js */
export const campaignCards = {
  noRunsYet: "No runs yet",
  noRunsYetHint: "Starting a phase creates a run, which is listed here.",
  runs: "Runs",
  events: "Campaign events",
  noEventsYet: "New events appear here.",
  progressTo: (percentage) => ` to ${percentage}`,
  files: "Files",
  run: "Run",
  phase: "Phase",
  status: "Status",
  results: "Results",
  sent: "Sent",
  failed: "Failed",
  duration: "Duration",
};

/** pages/campaigns.js */
export const campaigns = {
  allStates: "All states",
  inProgressOrScheduled: "In progress or scheduled",
  paused: "Paused",
  readyForNextPhase: "Ready for the next phase",
  notStarted: "Not started",
  completed: "Completed",
  failedOrStopped: "Failed or stopped",
  newCampaign: "New campaign",
  findByName: "Find by name or ID",
  find: "Find",
  clear: "Clear",
  campaigns: "Campaigns",
  onThisPage: (count) => `${count} on this page`,
  noMatch: "No matching campaigns",
  noMatchHint: "Try another name or state.",
  showAll: "Show all",
  noCampaignsYet: "No campaigns yet",
  noCampaignsYetHint:
    "A campaign sends your messages to an audience, phase by phase, and records every "
    + "recipient in the ledger.",
  createFirst: "Create your first campaign",
  campaign: "Campaign",
  state: "State",
  progress: "Progress",
  rate: "Rate",
  sent: "Sent",
  failed: "Failed",
  inDoubt: "In doubt",
  recipients: "Recipients",
  created: "Created",
  campaignId: "campaign ID",
  readyFor: (name) => `Ready for ${name}`,
};

/** pages/new_campaign.js */
export const newCampaign = {
  audienceImport: "normalises and de-duplicates the recipients you upload",
  dnsValidation: "checks that email domains can receive mail",
  httpValidation: "checks that the links in the messages work",
  senderValidation: "checks SPF, DKIM, DMARC and what Gmail and Yahoo ask of senders",
  launch: "sends the messages",
  report: "writes the results and the certificate to files",
  readOnly: "This key is read-only",
  readOnlyHint: "To create campaigns, sign in with a key that has the operate scope.",
  goToCampaigns: "Go to campaigns",
  noTargets: "No targets yet",
  noTargetsHint:
    "Messages are sent through a target, and the registry does not define any.",
  viewTargets: "View targets",
  createCampaign: "Create campaign",
  addMessage: "Add a message",
  details: "Details",
  name: "Name",
  nameExample: "Spring offer",
  phasesInThisOrder: "Phases, in this order",
  more: "More",
  batchSize: "Batch size",
  batchSizeHint: "Recipients per job.",
  notBefore: "Not before",
  notBeforeHint: "In your time zone. Leave empty to allow an immediate start.",
  requireApproval: "Require approval before each run",
  messages: "Messages",
  nextStep:
    "You add recipients in the next step. Nothing is sent until you start the campaign.",
  message: (number) => `Message ${number}`,
  id: "ID",
  target: "Target",
  subject: "Subject",
  subjectHint: "For email and push. Templates can use it too.",
  body: "Body",
  bodyExample: "Hi {{ firstName }}",
  bodyHint: "{{ name }} inserts an attribute of the recipient.",
  remove: "Remove",
  campaigns: "Campaigns",
  newCampaign: "New campaign",
  created: (recipients) => `Created with ${recipients}. Nothing has been sent yet.`,
  launched: (recipients) => `Already launched, with ${recipients}.`,
  openCampaign: "Open campaign",
  recipients: "Recipients",
  preview: "Preview",
  dryRun: "Dry run",
  importFirst:
    "Preview and dry run are available after Audience import has run: open the campaign and "
    + "start it.",
  recipientFile: "Recipient file",
  upload: "Upload",
  wrongFileType: "The file name must end in .csv, .ndjson or .jsonl.",
  staged: "uploaded, to be checked by Audience import",
  inAudience: "added to the audience",
  fileHint:
    "CSV with a header row (id, email, phone, pushToken; other columns become attributes), or"
    + " NDJSON with one recipient per line.",
  uploading: "Uploading",
  checking: "Checking",
  uploadedShare: (percentage, size) => `${percentage} of ${size}`,
  countRecipients: "Count recipients",
  wouldBeSent: "Would be sent",
  wouldFail: "Would fail",
  skipped: "Skipped",
  sentBefore: "Already sent",
  failures: (count, detail, join) => `${count} would fail: ${detail} (${join})`,
  allRendered: (messages) => `All ${messages} were rendered.`,
  sample: (rendered, messages) =>
    `Only a sample was rendered: ${rendered} of ${messages}. Others may fail too.`,
};

/** phase_controls.js */
export const phaseControls = {
  anotherPhaseInProgress: "another phase is in progress",
  anotherPhasePaused: "another phase is paused",
  predecessorNotCompleted: "an earlier phase is not completed",
  start: (name) => `Start ${name}`,
  alreadyInState: (name, state) => `${name} was already ${state}, so nothing was changed.`,
  cannotStart: (name, reason) => `${name} cannot start: ${reason}.`,
  stopHeading: (name) => `Stop ${name}?`,
  stopHint: (items) =>
    `Up to ${items} not attempted yet will be skipped. Calls already in progress finish and `
    + "are recorded. You can retry later: a retry is a new run for everyone not reached.",
  stopConfirm: "Stop phase",
  rerunHeading: (name) => `Run ${name} again?`,
  remainder: "Only those not reached yet",
  everyone: "Everyone",
  rerunHint:
    "Everyone includes people who already received it: they receive it again.",
  rerunConfirm: "Run again",
  wouldReceive: (count) => ` · ${count} would receive it`,
};

/** state/phase_words.js */
export const phaseWords = {
  sent: "Sent",
  done: "Done",
};

/** state/accounting.js */
export const accounting = {
  waiting: "Waiting",
  inDoubt: "In doubt",
  failed: "Failed",
  skipped: "Skipped",
};
