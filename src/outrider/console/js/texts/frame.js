// Sentences and labels around the pages: signing in, the menu, search, settings.

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

/** pages/missing.js */
export const missing = {
  notFound: "Not found",
  noSuchPage: "Page not found",
  noSuchPageHint: "The address may be mistyped or out of date.",
  goToCampaigns: "Go to campaigns",
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
