// Every sentence and label of the console, grouped by the module that shows it: read and edit them
// here. `tests/unit/test_words.py` fails when one is written elsewhere. (The page around it is
// `index.html`; names of months and units are in `state/format.js`.)

/** api.js */
export const api = {
  unexpectedAnswer: "The server sent an unexpected response.",
  unreachable: "The server could not be reached.",
  otherUser: "Someone else has signed in from this browser.",
};

/** app.js */
export const app = {
  sessionEnded: "Your session has ended. Sign in again to continue.",
  signInTitle: "Sign in · Outrider",
  notFound: "Not found",
  notLoaded: "This page could not be loaded",
  tryAgain: "Try again",
  triesAgain: "Trying again automatically.",
  goToCampaigns: "Go to campaigns",
};

/** frame.js */
export const frame = {
  campaigns: "Campaigns",
  events: "Events",
  intents: "Intents",
  workers: "Workers",
  audit: "Audit log",
  search: "Search",
  failedEvents: "Events that could not be routed",
  inDoubt: "In doubt",
  problems: "Problems",
  workflows: "Workflows",
  targets: "Targets",
  settings: "Settings",
  live: "Live",
  connecting: "Connecting",
  catchingUp: "Catching up",
  offline: "Offline",
  console: "Console",
  windowTitle: (title) => `${title} · Outrider`,
  breadcrumb: "Breadcrumb",
  setup: "Setup",
  theme: "Theme",
  light: "Light",
  dark: "Dark",
  system: "System",
  times: "Times",
  local: "Local",
  signOut: "Sign out",
  readOnly: "read-only",
  menu: "Menu",
  reconnecting: (seconds) => `Reconnecting in ${seconds} s`,
  outrider: "Outrider",
};

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
  reason: (reason) => `Reason: ${reason}`,
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

/** pages/audit.js */
export const audit = {
  audit: "Audit log",
  about: "Who did what. Entries are only ever added.",
  only: (what) => `Showing only ${what}.`,
  oneRun: "one run",
  oneCampaign: "one campaign",
  showAll: "Show all",
  nothing: "No entries yet",
  nothingHint: "Controls, verdicts, opt-outs, keys and changes of rules are recorded here.",
  when: "When",
  who: "Who",
  what: "What",
  on: "On",
  detail: "Details",
  itemId: "item ID",
  runId: "run ID",
};

/** pages/doubts.js */
export const doubts = {
  left: (count) => ` ${count} remaining.`,
  resolved: (items, left) => `${items} resolved.${left}`,
  about:
    "Calls whose outcome is unknown. They are resent only on evidence, or when you decide so.",
  resolveSelected: (count) => `Resolve ${count} selected`,
  resolveAllMatching: "Resolve all matching",
  filters: "Filters",
  any: "Any",
  allDoubts: "All",
  counted: (words, count) => `${words} (${count})`,
  settledBy: {
    receipt: "By receipt",
    key: "By repeating",
    look_up: "By look-up",
    person: "By a person",
  },
  unchecked: (count) => `${count} not checked yet`,
  campaign: "Campaign",
  target: "Target",
  reason: "Reason",
  showingOnly: "Showing only ",
  oneRun: "one run.",
  showAll: "Show all",
  nothingInDoubt: "Nothing in doubt",
  nothingInDoubtHint:
    "The outcome of every call is known. Calls with an unknown outcome are listed here with "
    + "their evidence.",
  nothingMatches: "Nothing in doubt matches",
  nothingMatchesHint: "Other items may be in doubt.",
  goToCampaigns: "Go to campaigns",
  inDoubt: "In doubt",
  select: "Select",
  selectOne: (recipientId) => `Select ${recipientId}`,
  recipient: "Recipient",
  question: "Question",
  underWay: "What is being done",
  providers: {
    twilio_sms: "Twilio",
    twilio_voice: "Twilio",
    whatsapp_cloud: "WhatsApp",
    resend: "Resend",
    ses: "Amazon SES",
    sendgrid: "SendGrid",
    mailgun: "Mailgun",
    postmark: "Postmark",
    brevo: "Brevo",
    mailjet: "Mailjet",
    telnyx: "Telnyx",
    vonage: "Vonage",
    sinch: "Sinch",
    infobip: "Infobip",
    plivo: "Plivo",
    web_push: "the browser's push service",
    expo: "Expo",
    slack: "Slack",
    telegram: "Telegram",
    bluesky: "Bluesky",
    mastodon: "Mastodon",
    fcm: "Firebase",
    smtp: "the mail server",
    sms: "the SMS gateway",
    push: "the push gateway",
  },
  questions: {
    sms: (provider, to) => `Did ${provider} accept the message to ${to} at `,
    email: (provider, to) => `Did ${provider} accept the email to ${to} at `,
    push: (provider, to) => `Did ${provider} accept the notification for ${to} at `,
    voice: (provider, to) => `Did ${provider} accept the call to ${to} at `,
    social: (provider, to) => `Did ${provider} accept the post for ${to} at `,
  },
  questionEnd: "?",
  known: {
    SENT_NO_ANSWER: "We sent the request and got no answer.",
    NOT_SENT: "The last call was not sent, but an earlier one got no answer.",
    ANSWERED: "The answer proves neither that it was accepted nor that it was refused.",
    open: "The call had started when its worker was lost.",
    suppressed:
      "The address has opted out since, so the provider is not asked again: that might send it.",
  },
  doing: {
    receipt: "Waiting for the provider's receipt.",
    key: "Repeating the call under the same reference, which the provider recognises.",
    look_up: "Asking the provider.",
    person: "Waiting for you: look up the reference at the provider, then resolve it.",
    unchecked: "A worker will check it shortly.",
  },
  next: {
    receipt: "Left to a person from ",
    key: "Next at ",
    look_up: "Next at ",
    person: "Next at ",
  },
  reference: "Reference",
  referenceToCopy: "reference",
  attempts: "Attempts",
  since: "Since",
  resolve: "Resolve",
  resolveOne: (recipientId) => `Resolve ${recipientId}`,
};

/** doubt_export.js */
export const doubtExport = {
  heading: "Settle with the provider's export",
  about:
    "Drop the provider's own list of messages here. You see what it would settle before anything "
    + "is changed.",
  target: "Target of the export",
  drop: "Drop a file, or choose one",
  dropHint: "CSV, JSON or NDJSON. Delimiter, encoding and columns are recognised.",
  file: "File",
  fileIs: (name, rows, format, encoding) => `${name}: ${rows}, ${format}, ${encoding}`,
  wouldBeSent: "Would become sent",
  wouldFail: "Would become failed",
  wouldBeResent: "Would be sent again",
  stayInDoubt: "Would stay in doubt",
  ambiguous: "Several rows could be about them",
  notCovered: "Outside the export's time range",
  held: "Their worker may still be running",
  knownRows: "Rows about messages with a known outcome",
  unknownRows: "Rows that match no message",
  unreadable: (lines) => `${lines} could not be read.`,
  columns: "Columns",
  noColumn: "Not in the export",
  fields: {
    reference: "Reference",
    providerMessageId: "Provider ID",
    recipient: "Recipient",
    time: "Time",
    status: "Status",
  },
  statuses: "What the statuses mean",
  statusRows: (status, rows) => `${status} (${rows})`,
  meanings: {
    sent: "The provider accepted it",
    failed: "The provider refused it",
    not_received: "It never arrived",
    unclear: "Unclear: stays in doubt",
  },
  absent: "Messages that are not in the export",
  absentHint: "Choose only if the export is complete.",
  absents: { stay: "Stay in doubt", resubmit: "Send again", failed: "Mark as failed" },
  absenceRefused: {
    nothing_matched:
      "No row is about any message of this target, so what is missing proves nothing. It may be "
      + "another export, or the reference is in another column.",
    unreadable_rows:
      "Some lines could not be read, and they may contain the missing messages.",
  },
  force: "Include items whose worker may still be running",
  sample: "First matches",
  recipient: "Recipient",
  becomes: "Becomes",
  verdicts: { sent: "Sent", failed: "Failed", resubmit: "Sent again" },
  matchedBy: "Matched by",
  matches: {
    reference: "reference",
    provider_message_id: "provider ID",
    recipient_and_time: "recipient and time",
    absent: "not in the export",
  },
  line: "Line",
  status: "Status",
  unknownSample: "Rows that match nothing",
  apply: (verdicts) => `Apply ${verdicts}`,
  nothingToApply: "Nothing to apply",
  nothingChanged: "Nothing has been changed yet.",
};

/** pages/events.js */
export const events = {
  events: "Events",
  about: "Domain events, and what the rules made of each.",
  all: "All",
  received: "Received",
  routed: "Routed",
  failed: "Failed",
  allTriggers: "All triggers",
  noMatch: "No matching events",
  noEvents: "No events yet",
  noEventsHint: "Send domain events with POST /events or `outrider event emit`.",
  showAll: "Show all",
  event: "Event",
  trigger: "Trigger",
  status: "Status",
  messages: "Messages",
  why: "Reason",
  when: "Received",
  reroute: "Route again",
  rerouted: "The event is routed again.",
  whatHappened: "What happened",
  occurred: "Occurred",
  updated: "Updated",
  subject: "Subject",
  variables: "Variables",
  routes: "Routes",
  noRoutes: "No routes yet",
  noRoutesHint: "A worker applies the rules in force to each new event.",
  noMessages: "No messages",
  noMessagesHint: "Nothing was created for this event. The routes say why.",
  channel: "Channel",
  audience: "Audience",
  decision: "Decision",
  by: "Rule or sender",
  ruleId: "rule ID",
  collected: (entries) => `${entries} collected for a digest`,
  withoutAddress: (recipients) => `no address: ${recipients}`,
  recipient: "Recipient",
  address: "Address",
  next: "Next attempt",
};

/** pages/intents.js */
export const intents = {
  intents: "Intents",
  resubmits: "Resubmits",
  resubmittedAs: "Resubmitted as",
  sendAgain: "Send again",
  sendAgainQuestion: "Send this message again?",
  sendAgainWords: "A new intent with the same target and payload is submitted. This one stays as it is, and each"
    + " links to the other.",
  about: "Single messages that programs submitted.",
  all: "All",
  pending: "Pending",
  accepted: "Accepted",
  rejected: "Rejected",
  exhausted: "Exhausted",
  allTargets: "All targets",
  noMatch: "No matching intents",
  noIntents: "No intents yet",
  noIntentsHint: "Submit single messages with POST /intents or `outrider intent submit`.",
  showAll: "Show all",
  intent: "Intent",
  target: "Target",
  status: "Status",
  why: "Reason",
  attempts: "Attempts",
  submitted: "Submitted",
  updated: "Updated",
  item: "Item ",
  itemId: "item ID",
  whatHappened: "What happened",
  payload: "Payload",
  noAttempts: "No attempts",
  noAttemptsHint: "No provider was called for this intent yet.",
  to: "To",
  outcome: "Outcome",
  error: "Error",
  waitsFor: "Waiting for",
  topic: "Topic",
  callback: "Callback",
  delivery: "Delivery",
  attempt: "Attempt",
  open: "Open",
  opened: "Started",
  took: "Took",
};

/** pages/item.js */
export const item = {
  campaigns: "Campaigns",
  run: "Run",
  itemId: "item ID",
  resolve: "Resolve",
  whatHappened: "What happened",
  item: "Item",
  attempts: "Attempts",
  noAttempts: "No attempts",
  noAttemptsHint: "No provider was called for this item.",
  address: "Address",
  channel: "Channel",
  target: "Target",
  provider: "Provider",
  intentStatus: "Intent status",
  exhaustedReason: "Exhausted because",
  reason: "Reason",
  error: "Error",
  subject: "Subject",
  nextAttempt: "Next attempt",
  waitsFor: "Waiting for",
  created: "Created",
  updated: "Updated",
  reference: "Reference",
  referenceToCopy: "reference",
  providerId: "Provider ID",
  openAttempt: "Open: outcome unknown",
  repeat: (repeat) => `repeat ${repeat}`,
  opened: "Started ",
  took: " · took ",
  providerIdBefore: "Provider ID ",
  providerIdToCopy: "provider ID",
  delivery: "Delivery",
  reportedAt: "As of",
  deliveryReason: "Provider's reason",
  forGood: (name) => `${name} for good`,
};

/** pages/messages.js */
export const messages = {
  messages: "Messages",
  target: (submissionTarget) => `via ${submissionTarget}`,
  recipientId: "Recipient ID",
  recipientIdHint: "Recipient ID (default: the first)",
  preview: "Preview",
  to: (recipientId) => `To ${recipientId}`,
  wouldBeSkipped: (skippedBecause) => `Would be skipped: ${skippedBecause}.`,
  htmlBody: "This body is HTML. It is shown as plain text here.",
};

/** pages/missing.js */
export const missing = {
  notFound: "Not found",
  noSuchPage: "Page not found",
  noSuchPageHint: "The address may be mistyped or out of date.",
  goToCampaigns: "Go to campaigns",
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

/** pages/person.js */
export const person = {
  search: "Search",
  email: "Email address",
  phone: "Phone number",
  pushToken: "Push token",
  recipient: "Recipient ID",
  incomplete: "There is more than can be shown for one person. The oldest entries are left out.",
  optedOut: (of) => `Opted out: ${of}.`,
  optOutOf: (channel, topic) => (topic ? `${channel}, ${topic}` : `${channel}, everything`),
  known: "Known as",
  recipientIds: "Recipient IDs",
  otherAddresses: "Other addresses",
  story: "Timeline",
  nothing: "Nothing is known about this person",
  nothingHint: "No message, event, opt-out or receipt has this address or recipient ID.",
  searchAgain: "Search again",
  singleMessage: "Single message",
  message: (channel, target) => `${channel} via ${target}`,
  because: (reason) => ` · ${reason}`,
  waitsFor: (what) => ` · waiting for ${what}`,
  event: (eventId) => `Domain event ${eventId}`,
  reported: (target) => `Receipt from ${target}`,
  reply: (text) => ` · “${text}”`,
  itsMessage: "its message",
  optOut: "Opted out",
  everythingBlocked: " · transactional messages too",
};

/** pages/run.js */
export const run = {
  timeline: "Timeline",
  eventLog: "Event log",
  jobs: "Jobs",
  items: "Items",
  certificate: "Certificate",
  heading: (name) => `${name} run`,
  campaigns: "Campaigns",
  campaign: "Campaign",
  catchingUp: "Catching up",
  results: "Results",
  details: "Details",
  starts: "Starts",
  started: "Started",
  finished: "Finished",
  duration: "Duration",
  channel: "Channel",
  lastLogEvent: "Last log event",
  stopped: "Stopped",
  continues: "Continues run",
  runId: "run ID",
  views: "Run views",
  atEvent: (at) => `At event #${at}`,
  resultsAt: (at) =>
    `As it was after event #${at}. Items that no job had finished by then count as waiting.`,
  approveHeading: "Approve this run?",
  approveHint: "It starts immediately.",
  approve: "Approve",
};

/** pages/run_tabs.js */
export const runTabs = {
  gap: "Some events are missing. Catching up.",
  noEvents: "No events yet",
  noEventsHint: "Events appear once the run is approved.",
  eventLog: "Event log",
  shownFrom: (beginsAt) => `Shown from #${beginsAt}`,
  showEarlier: "Show earlier",
  time: "Time",
  event: "Event",
  job2: "Job",
  logicalAttempt: "Attempt",
  engineAttempt: "Engine attempt",
  emittedBy: "Emitted by",
  payload: "Payload",
  noJobsYet: "No jobs yet",
  noJobsHint: "Jobs are created when the run starts.",
  jobs: "Jobs",
  job: "Job",
  jobId: "job ID",
  kind: "Kind",
  target: "Target",
  succeeded: "Succeeded",
  failed: "Failed",
  skipped: "Skipped",
  lostAttempts: "Lost attempts",
  lastError: "Last error",
  findings: "Findings",
  all: "All",
  recipientId: "Recipient ID",
  find: "Find",
  inDoubt: "In doubt",
  noItems: "No items",
  noItemsHint: "Items appear when a worker starts their batch.",
  showAll: "Show all",
  items: "Items",
  item: "Item",
  itemId: "item ID",
  recipient: "Recipient",
  address: "Address",
  channel: "Channel",
  status: "Status",
  why: "Reason",
  attempts: "Attempts",
  updated: "Updated",
  certificate: "Certificate",
  proven:
    "Proven: every intended item has a final status, and none was sent twice.",
  notProven: "Not proven yet.",
  clauseHolds: " holds",
  clauseFails: " does not hold",
  countedAt: "Counted from the ledger ",
  ledgerDigest: "Ledger digest ",
  whyThisStatus: "Why this status",
};

/** pages/run_timeline.js */
export const runTimeline = {
  atThatEvent: "After that event",
  failed: (count) => `, ${count} failed`,
  noJobs: "No jobs started",
  noJobsHint: "Jobs appear when a worker starts them.",
  jobs: "Jobs",
  jobsShown: (count, count2) => `${count} of ${count2} jobs`,
  showMore: "Show more",
  atEvent: (at) => `At event #${at}`,
  to: (last) => `to ${last}`,
  position: "Position in the event log",
  event: (at, type) => `Event ${at}${type}`,
  now: "Now",
  jobId: "job ID",
  logicalAttemptHint: "Logical attempt: how often it was started on purpose",
  logicalAttempt: (logicalAttemptId) => `attempt ${logicalAttemptId}`,
  engineAttemptHint: "Engine attempt: how often it was started, lost workers included",
  engineAttempt: (engineAttemptId) => `· engine attempt ${engineAttemptId}`,
  succeeded: (count) => `· ${count} succeeded`,
};

/** pages/search.js */
export const search = {
  search: "Search",
  about: "An address, a recipient ID, a name, or the ID of anything.",
  label: "Search everything",
  placeholder: "Search",
  person: "Person",
  campaign: "Campaign",
  run: "Run",
  item: "Item",
  event: "Domain event",
  intent: "Intent",
  nothing: "Nothing found",
  nothingHint:
    "Addresses and IDs have to be complete; a part is enough for the name of a campaign. Write "
    + "phone numbers with their country code, such as +44.",
  found: (hits) => `Found: ${hits}`,
  onlyNames: "Found by name. Addresses and IDs have to be complete.",
};

/** pages/settings.js */
export const settings = {
  readScope: "Read: view everything except keys",
  operateScope: "Operate: also start, pause and resolve",
  adminScope: "Admin: also manage keys, workflows and the registry",
  settings: "Settings",
  noKeys: "No keys yet",
  noKeysHint:
    "The root key is in use. Create a key for each client, so that each can be revoked separately.",
  keys: "Keys",
  scopes: "Scopes",
  state: "State",
  active: "Active",
  id: "ID",
  keyId: "key ID",
  created: "Created",
  revoke: "Revoke",
  revokeOne: (name) => `Revoke ${name}`,
  newKey: "New key",
  name: "Name",
  scope: "Scope",
  create: "Create",
  shownOnce: "This key is shown only once",
  shownOnceHint: "Store it where your client can read it. It cannot be shown again.",
  keyLost: "The response was lost. Revoke this key and create another.",
  revokeHeading: (name) => `Revoke ${name}?`,
  revokeHint:
    "Its clients and sessions are refused immediately. This cannot be undone.",
  revokeConfirm: "Revoke key",
  noOptOuts: "No opt-outs yet",
  noOptOutsHint:
    "Campaigns, workflows and single messages all skip addresses that have opted out. "
    + "Unsubscribe links add addresses here.",
  optOuts: "Opt-outs",
  address: "Address",
  everything: "Everything",
  source: "Source",
  transactional: "Transactional",
  transactionalBlocked: "Also blocked",
  transactionalSent: "Still sent",
  since: "Since",
  remove: "Remove",
  removeOne: (address) => `Remove ${address}`,
  optOutAddresses: "Opt out addresses",
  channel: "Channel",
  addresses: "Addresses",
  addressesHint: "One per line.",
  topic: "Topic",
  topicHint: "Leave empty for everything on the channel.",
  reason: "Reason",
  optOut: "Opt out",
  removeHeading: (address) => `Allow messages to ${address} again?`,
  removeHint: "Only do this with their consent: they opted out.",
  removeConfirm: "Remove opt-out",
};

/** pages/sign_in.js */
export const signIn = {
  invalidKey: "This key is invalid or has been revoked.",
  apiKey: "API key",
  apiKeyHint:
    "`outrider serve` prints one when it first starts; `outrider key create NAME` creates more.",
  outrider: "Outrider",
  signIn: "Sign in",
};

/** pages/targets.js */
export const targets = {
  healthy: "Healthy",
  throttled: "Throttled",
  down: "Down",
  paused: "Paused",
  targets: "Targets",
  about: "The gateways that messages are submitted to, and their contracts.",
  noTargets: "No targets",
  noTargetsHint:
    "Targets are defined in the registry. Run `outrider registry check` to find mistakes in it.",
  goToCampaigns: "Go to campaigns",
  gateway: "Gateway",
  channel: "Channel",
  mode: "Mode",
  contract: "Contract",
  rate: "Rate",
  rateAndBurst: (rate, count) => `${rate}, bursts of ${count}`,
  unlimited: "Unlimited",
  concurrency: "Concurrent calls",
  slots: (count) => `currently at most ${count}`,
  breaker: "Considered down",
  breakerAfter: (failures) => `after ${failures}; a probe every `,
  retries: "Retries",
  fallback: "Fallback",
  remembersReferences: "Remembers references",
  openJobs: "Open jobs",
  inDoubt: "In doubt",
  finalRefusals: "Final refusals",
  pausedBy: (pausedBy) => `Paused by ${pausedBy}`,
  since: " since ",
  nextCall: "Next call ",
  resumeHint: "Run `outrider target resume` to continue. ",
  every: (first) => `every ${first}`,
  backoff: (first, retryFactor, duration) =>
    `after ${first}, then × ${retryFactor}, at most ${duration}`,
  acceptedWithin: (duration) => `accepted within ${duration}`,
  atMost: (attempts) => `at most ${attempts}`,
  oneAttempt: "one attempt",
  never: "Never",
  whileCalling: "Only while a call is in progress",
  silentInDoubt: (words) => `${words}: unanswered calls stay in doubt`,
  forever: "Forever",
  for: (declared) => `For ${declared}`,
  silentRepeated: (words) => `${words}: unanswered calls are repeated`,
};

/** parts/blockers.js */
export const blockers = {
  since: " · ",
  viewTarget: (target) => `View ${target}`,
  viewWorkers: "View workers",
  viewDoubts: "View items in doubt",
  viewProblems: "View problems",
  runbook: "Runbook",
  codes: {
    SCHEDULED: "Scheduled",
    AWAITING_APPROVAL: "Waits for an approval",
    AWAITING_ROOM: "Waits for capacity",
    PAUSED: "Paused",
    QUIET_HOURS: "Waits for quiet hours to end",
    TARGET_SHAPED: "Waits for the limits of its target",
    ROLLOUT_HOLD: "Watches this step of the rollout",
    TARGET_THROTTLED: "The target asks to retry later",
    TARGET_DOWN: "The target is down",
    TARGET_PAUSED: "The target is paused",
    NO_WORKER: "No worker is doing it",
    DATABASE_DOWN: "The database is down",
    IN_DOUBT: "Items are in doubt",
    ENGINE_DOWN: "The engine is down",
  },
};

/** pages/trouble.js */
export const trouble = {
  alerts: "Alerts",
  deadLetters: "Dead letters",
  bypasses: "Bypasses",
  open: "Open",
  all: "All",
  alert: "Alert",
  severity: "Severity",
  about: "About",
  times: "Count",
  raised: "Raised",
  lastSeen: "Last seen",
  resolved: "Resolved",
  noOpenAlerts: "No open alerts",
  noOpenAlertsHint: "Alerts close automatically when their cause is gone.",
  runbook: "What to do",
  redriveAllHeading: "Redrive all dead letters?",
  redriveAllHint:
    "Every dead letter in this workspace is queued for its sink again, with a fresh set of "
    + "attempts.",
  queuedAgain: (letter) => `${letter} queued again.`,
  event: "Event",
  sink: "Sink",
  runOrItem: "Run or item",
  runId: "run ID",
  itemId: "item ID",
  attempts: "Attempts",
  givenUp: "Given up",
  redriven: "Redriven ",
  redrive: "Redrive",
  noDeadLetters: "No dead letters",
  noDeadLettersHint:
    "Events that could not be delivered to a sink are kept here until you redrive them.",
  problems: "Problems",
  redriveAll: "Redrive all",
  campaign: "Campaign",
  campaignId: "campaign ID",
  phase: "Phase",
  from: "From",
  to: "To",
  by: "By",
  when: "When",
  noBypasses: "No bypasses",
  noBypassesHint:
    "If a phase's state is changed without its lifecycle event, it is recorded here with who "
    + "changed it and why.",
};

/** pages/workers.js */
export const workers = {
  workers: "Workers",
  about: "Servers and workers, and what each holds now.",
  mixedVersions: (versions) => `Different versions are running: ${versions}.`,
  none: "No workers",
  noneHint: "Nothing is sent until one runs: start `outrider work` or `outrider serve`.",
  worker: "Worker",
  workerId: "worker ID",
  state: "State",
  alive: "Alive",
  silent: "Silent",
  process: (host, pid) => `${host}, process ${pid}`,
  role: "Role",
  holds: "Holds",
  nothing: "Nothing",
  since: "since ",
  takes: "Takes",
  everything: "Everything",
  version: "Version",
  running: "Running for",
  lastSeen: "Last seen",
};

/** pages/workflows.js */
export const workflows = {
  dryRun: "Dry run",
  policy: "Policy",
  about:
    "What is sent when a domain event arrives: its trigger, the rules for it, and their steps.",
  noRulesYet: "No rules yet",
  noRulesHint:
    "Rules are kept in one file. Apply it with `outrider workflow apply FILE` or PUT "
    + "/workflows; see examples/quotes for a sample.",
  tryDryRun: "Try a dry run",
  rules: "Rules",
  state: "State",
  workflows: "Workflows",
  enabled: "Enabled",
  disabled: "Disabled",
  ruleId: "rule ID",
  disable: "Disable",
  enable: "Enable",
  rule: "Rule",
  channel: "Channel",
  audience: "Audience",
  urgent: "Urgent",
  urgentYes: "Ignores quiet hours",
  topic: "Topic",
  transactional: "Transactional",
  transactionalYes: "Not stopped by unsubscribing",
  no: "No",
  created: "Created",
  updated: "Updated",
  noSteps: "No workflow steps",
  noStepsHint: "A rule without steps sends nothing.",
  recipients: (recipientConfig) => `to ${recipientConfig}`,
  target: (submissionTarget) => `via ${submissionTarget}`,
  digest: (digestMinutes) => `${digestMinutes}-minute digest`,
  after: (duration) => `after ${duration}`,
  immediately: "immediately",
  lead: "the lead",
  partner: "the partner",
  agent: "the agent",
  readOnly: "A dry run requires a key with the operate scope.",
  trigger: "Trigger",
  subject: "Subject",
  subjectHint: "Who the event is about, as JSON: lead, partner, agent.",
  variables: "Variables",
  variablesHint: "What templates can use, as JSON.",
  runDryRun: "Run dry run",
  domainEvent: "Domain event",
  whatWouldHappen: "What would happen",
  dryRunHint: "Nothing is stored and nothing is sent.",
  noRuleMatches: "No rule matches this trigger. Nothing would be sent.",
  due: "due ",
  skipped: (skippedBecause) => `Skipped: ${skippedBecause}.`,
  waitsFor: (waitsFor) => `Waiting for ${waitsFor}.`,
  span: (from, to, span) => `${from} to ${to}${span}`,
  policyHeading: "When messages may be sent",
  timeZone: "Time zone",
  quietHours: "Quiet hours",
  sendingWindow: "Sending window",
  presets: "Presets",
  exempt: "Never delayed",
  always: "Always",
  frequencyCap: "Frequency cap",
  cap: (messages, perHours, whenReached) =>
    `${messages} per ${perHours} h, then ${whenReached}`,
  none: "None",
  retries: "Retries",
  policyHint: "Change it with `outrider workflow apply` or PUT /workflows/policy.",
  forChannels: (join) => ` for ${join}`,
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

/** resolving.js */
export const resolving = {
  sent: "It was sent",
  sentHint: "The provider or the recipient has it.",
  failed: "It failed",
  failedHint: "It never arrived. A later retry may send it.",
  sendAgain: "Send it again",
  sendAgainHint: "Only if you know that it never arrived.",
  heading: (recipientId) => `What happened to ${recipientId}?`,
  resolve: "Resolve",
  resolveMoreThan: (count) => `Resolve more than ${count} items at once?`,
  resolveAtOnce: (items) => `Resolve ${items} at once?`,
  verdictHint: "The verdict is final for each item and is recorded in the audit log.",
  resolveAll: "Resolve all",
  resolveCount: (count) => `Resolve ${count}`,
  verdict: "Verdict",
  evidence: "How do you know?",
  evidenceExample: "Found in today's export from the provider",
  lookUp: "Look up the reference ",
  atProvider: " at the provider.",
};

/** state/accounting.js */
export const accounting = {
  waiting: "Waiting",
  inDoubt: "In doubt",
  failed: "Failed",
  skipped: "Skipped",
};

/** state/delivery.js */
export const delivery = {
  delivered: "Delivered",
  read: "Read",
  replied: "Replied",
  bounced: "Bounced",
  complained: "Complained",
  optedOut: "Opted out",
  notDelivered: "Not delivered",
  unknown: "No receipt",
};

/** state/phase_words.js */
export const phaseWords = {
  sent: "Sent",
  done: "Done",
};

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

/** parts/ledger.js */
export const ledger = {
  nothingCountedYet: "Nothing counted yet",
  sent: "Sent",
  inWords: (count, none) => `${count} intended: ${none}`,
  settled: (count) => `of ${count} intended are finished`,
  doesNotAddUp: (count) => `The parts add up to ${count}, which is not the intended total.`,
  restEnded: "Everything else has finished. ",
  resolveDoubts: (count) => `Resolve items in doubt (${count})`,
  intended: "Intended",
  asReported: "As reported by receipts:",
  delivery: (name, count) => `${name} ${count}`,
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
