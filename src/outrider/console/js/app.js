// Begins everything: who is signed in, which page the address names, and the frame around it.

import { session, whenSignedOut } from "./api.js";
import { render } from "./dom.js";
import { Frame } from "./frame.js";
import { apply } from "./preferences.js";
import { parseHash } from "./state/hash.js";
import { stream } from "./stream.js";
import { closeAll } from "./parts/dialog.js";
import { problemNote, skeleton } from "./parts/feedback.js";
import { button } from "./parts/controls.js";
import { signInPage } from "./pages/sign_in.js";

const PAGES = {
  campaigns: (id) => (id ? import("./pages/campaign.js") : import("./pages/campaigns.js")),
  runs: () => import("./pages/run.js"),
  items: () => import("./pages/item.js"),
  doubts: () => import("./pages/doubts.js"),
  workflows: () => import("./pages/workflows.js"),
  targets: () => import("./pages/targets.js"),
  trouble: () => import("./pages/trouble.js"),
  settings: () => import("./pages/settings.js"),
  new: () => import("./pages/new_campaign.js"),
  missing: () => import("./pages/missing.js"),
};

const root = document.getElementById("app");
let who = null;
let frame = null;
let leaving = new AbortController();
let shown = null;

async function begin() {
  apply();
  whenSignedOut(signedOut);
  stream.whenSignedOut(signedOut);
  try {
    await signedIn(await session.current());
  } catch {
    showSignIn();
  }
}

async function signedIn(found) {
  who = found;
  frame = new Frame(root, who, signOut);
  await open();
}

function signedOut() {
  if (who !== null) {
    showSignIn("Your session has ended. Sign in again to go on.");
  }
}

async function signOut() {
  try {
    await session.signOut();
  } finally {
    showSignIn();
  }
}

function showSignIn(words = null) {
  who = null;
  frame = null;
  shown = null;
  leave();
  render(root, signInPage(words, signedIn));
  document.title = "Sign in · Outrider";
  root.querySelector("input")?.focus();
}

function leave() {
  leaving.abort();
  leaving = new AbortController();
  stream.close();
  closeAll();
}

/** Draw the page of the address; a filter of the same page keeps its frame and its focus. */
async function open() {
  if (who === null) {
    return;
  }
  if (location.hash === "#main") {
    document.getElementById("main")?.focus();
    history.replaceState(null, "", shown?.hash ?? "#/campaigns");
    return;
  }
  leave();
  const { page, id, query } = parseHash(location.hash);
  const isSame = shown?.page === page && shown?.id === id;
  shown = { page, id, hash: location.hash };
  const signal = leaving.signal;
  const main = frame.begin(page);
  if (!isSame) {
    render(main, skeleton());
    frame.focusPage();
  }
  try {
    const { show } = await (PAGES[page] ?? PAGES.missing)(id);
    if (!signal.aborted) {
      await show({ main, id, query, signal, who, frame });
    }
  } catch (error) {
    if (!signal.aborted && error.status !== 401) {
      frame.head({ title: error.status === 404 ? "Not found" : "This did not load" });
      render(main, problemNote(error), button("Try again", { onclick: open }));
    }
  }
}

addEventListener("hashchange", open);
begin();
