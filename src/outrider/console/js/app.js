// Begins everything: who is signed in, which page the address names, and the frame around it.

import { NoAnswer, session, whenSignedOut } from "./api.js";
import { h, render } from "./dom.js";
import { Frame } from "./frame.js";
import { apply } from "./preferences.js";
import { outageOf } from "./state/blockers.js";
import { parseHash } from "./state/hash.js";
import { stream } from "./stream.js";
import { closeAll } from "./parts/dialog.js";
import { blockerNotes } from "./parts/blockers.js";
import { failureToast, problemNote, skeleton } from "./parts/feedback.js";
import { button, linkButton } from "./parts/controls.js";
import { show as audit } from "./pages/audit.js";
import { show as campaign } from "./pages/campaign.js";
import { show as campaigns } from "./pages/campaigns.js";
import { show as doubts } from "./pages/doubts.js";
import { show as events } from "./pages/events.js";
import { show as intents } from "./pages/intents.js";
import { show as items } from "./pages/item.js";
import { show as missing } from "./pages/missing.js";
import { show as newCampaign } from "./pages/new_campaign.js";
import { show as people } from "./pages/person.js";
import { show as runs } from "./pages/run.js";
import { show as search } from "./pages/search.js";
import { show as settings } from "./pages/settings.js";
import { signInPage } from "./pages/sign_in.js";
import { show as targets } from "./pages/targets.js";
import { show as trouble } from "./pages/trouble.js";
import { show as workers } from "./pages/workers.js";
import { show as workflows } from "./pages/workflows.js";
import { app as texts } from "./texts/frame.js";

/**
 * All of them from the beginning: one that is fetched when it is wanted may be out of reach then,
 * which a browser does not forgive, or be of another version than the rest.
 */
const PAGES = {
  campaigns, campaign, runs, items, doubts, workflows, targets, trouble, settings,
  people, search, events, intents, audit, workers, new: newCampaign, missing,
};
const RETRY_MS = 2_000;
const PASSING = new Set([502, 503, 504]);

const root = document.getElementById("app");
let who = null;
let frame = null;
let leaving = new AbortController();
let shown = null;

async function begin() {
  apply();
  whenSignedOut(signedOut);
  stream.whenSignedOut(signedOut);
  await enter();
}

async function enter() {
  try {
    await signedIn(await session.current());
  } catch (error) {
    if (isPassing(error)) {
      // Somebody who is signed in must not be asked for a key because the server is away.
      document.title = texts.notLoaded;
      render(root, h("main", { class: "sign-in", id: "main", tabindex: "-1" },
        h("div", { class: "sign-in-card" }, h("h1", {}, texts.notLoaded), problemNote(error),
          h("p", { class: "muted", role: "status" }, texts.triesAgain))));
      setTimeout(enter, RETRY_MS);
      return;
    }
    showSignIn(error.status === 401 ? null : error.message);
  }
}

/** The server is away or starting: nothing is wrong with what was asked. */
function isPassing(error) {
  return error instanceof NoAnswer || PASSING.has(error.status);
}

async function signedIn(found) {
  who = found;
  frame = new Frame(root, who, signOut);
  await open();
}

function signedOut() {
  if (who !== null) {
    showSignIn(texts.sessionEnded);
  }
}

async function signOut() {
  try {
    await session.signOut();
  } catch (error) {
    if (error.status !== 401) {
      // The cookie is still there: to show the sign-in would be untrue.
      failureToast(error);
      return;
    }
  }
  showSignIn();
}

function showSignIn(words = null) {
  who = null;
  frame?.end();
  frame = null;
  shown = null;
  leave();
  render(root, signInPage(words, signedIn));
  document.title = texts.signInTitle;
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
  const isFirst = shown === null;
  shown = { page, id, hash: location.hash };
  const signal = leaving.signal;
  const main = frame.begin(page);
  main.toggleAttribute("data-loading", true);
  if (!isSame) {
    render(main, skeleton());
    // At first the browser's own beginning is right: Tab leads to the link past the navigation.
    if (!isFirst) {
      frame.focusPage();
    }
  }
  try {
    await pageOf(page, id)({ main, id, query, signal, frame: frame.of(signal) });
  } catch (error) {
    if (!signal.aborted && error.status !== 401) {
      failed(main, signal, error);
    }
  } finally {
    if (!signal.aborted) {
      main.toggleAttribute("data-loading", false);
    }
  }
}

function failed(main, signal, error) {
  frame.head({ title: error.status === 404 ? texts.notFound : texts.notLoaded });
  render(main, h("div", { class: "stack" }, problemNote(error),
    outageOf(error) && blockerNotes(outageOf(error)),
    isPassing(error) && h("p", { class: "muted", role: "status" }, texts.triesAgain),
    h("div", { class: "button-row" }, button(texts.tryAgain, { onclick: open }),
      linkButton(texts.goToCampaigns, "#/campaigns", { look: "plain" }))));
  if (isPassing(error)) {
    setTimeout(() => signal.aborted || open(), RETRY_MS);
  }
}

function pageOf(page, id) {
  const name = page === "campaigns" && id ? "campaign" : page;
  return PAGES[Object.hasOwn(PAGES, name) ? name : "missing"];
}

addEventListener("hashchange", open);
addEventListener("unhandledrejection", (event) => {
  if (event.reason?.name === "AbortError") {
    // What a page that was left had asked for.
    event.preventDefault();
  }
});
begin();
