// The annotation page: one case at a time.
import { get, remove } from "./api.js";
import { answerText } from "./buttons.js";
import { Pictures, renderCase, spoken } from "./case.js";
import { keysOf } from "./choices.js";
import { Desk } from "./desk.js";
import { byId, el, fill, show, write } from "./dom.js";
import { listen } from "./events.js";
import { Queue, showMessage } from "./messages.js";
import { Outbox, waitingHere } from "./outbox.js";
import { Pad, setSingleKeys } from "./pad.js";
import { Recent } from "./recent.js";
import { translate, words } from "./words.js";
import { markdown } from "./markdown.js";

const TOAST = 3200;

class Page {
  constructor(me, campaign) {
    this.outbox = new Outbox(`${encodeURIComponent(me.campaign)}.${encodeURIComponent(me.name)}`);
    this.desk = new Desk(this.outbox, (event) => this.changed(event));
    this.queue = new Queue(this.desk);
    this.pictures = new Pictures();
    this.recent = new Recent(campaign, this.desk, (error) => this.toast(error.message || words("server_away")));
    this.pad = new Pad(campaign, this.desk, { guidelines: () => this.guidelines(), help: () => byId("help").showModal(), say: (text) => this.announce(text) });
    this.shown = null; // id of the case, or name of the message, on the screen
    this.held = null; // the case shown last, and until when it was ours
    this.state = null;
    this.news = ""; // to be said together with the next case
    this.timer = null;
    this.campaign = campaign;
    this.furnish(me);
  }

  furnish(me) {
    document.title = words("annotate_title", { campaign: this.campaign.name });
    write(byId("campaign"), this.campaign.name);
    write(byId("who"), words("signed_in", { name: me.name }));
    show(byId("to-dashboard"), me.role === "owner");
    show(byId("sign-out"), true);
    byId("sign-out").addEventListener("click", () => this.signOut());
    byId("open-guidelines").addEventListener("click", () => this.guidelines());
    byId("open-help").addEventListener("click", () => byId("help").showModal());
    fill(byId("guidelines-text"), markdown(this.campaign.guidelines ?? words("no_guidelines")), columns(this.campaign.descriptions));
    if (this.campaign.legal_basis) write(byId("legal-basis"), words("legal_basis", { basis: this.campaign.legal_basis }));
    byId("recent-box").open = matchMedia("(min-width: 861px)").matches;
    this.helpKeys();
    addEventListener("storage", (event) => this.otherTab(event));
    addEventListener("online", () => this.desk.tryNow());
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.desk.tryNow());
    listen({ progress: (news) => this.progressed(news), bye: () => this.desk.refresh() });
  }

  helpKeys() {
    const last = Math.min(9, this.campaign.groups.length);
    const lines = this.pad.several ? [] : [[`1–${last}`, words("help_group")]];
    for (const { name, groups, none } of this.pad.several ? keysOf(this.campaign.attributes) : []) {
      const keys = groups.map(([, key]) => key).filter(Boolean);
      if (keys.length) lines.push([keys.length > 1 ? `${keys[0]}–${keys.at(-1)}` : keys[0], words("help_attribute", { attribute: name })]);
      if (none) lines.push([none, words("help_attribute_none", { attribute: name })]);
    }
    for (const [key, name] of [["0", "cannot_tell"], ["d", "declined"], ["s", "skip"], ["u", "undo"]]) {
      if (key !== "0" || !this.pad.several) lines.push([key, `${words(name)}. ${words(`${name}_hint`)}.`]);
    }
    lines.push(["g", words("help_guidelines")], ["?", words("help_help")]);
    fill(byId("keys"), lines.map(([key, text]) => [el("dt", {}, el("kbd", { text: key })), el("dd", { text })]).flat());
    const box = byId("single-keys");
    box.checked = this.pad.keys;
    box.addEventListener("change", () => {
      this.pad.keys = box.checked;
      setSingleKeys(box.checked);
    });
  }

  guidelines() {
    byId("guidelines").showModal();
  }

  /** Guidelines that this browser has not shown yet come first. */
  guidelinesFirst(me) {
    const key = `apod.read.${encodeURIComponent(me.campaign)}.${encodeURIComponent(me.name)}`;
    const version = String(this.campaign.version);
    if (!this.campaign.guidelines || localStorage.getItem(key) === version) return;
    const read = () => {
      localStorage.setItem(key, version);
      const focus = document.activeElement; // may still be the button that closed them
      if (focus === document.body || byId("guidelines").contains(focus)) byId("heading").focus({ preventScroll: true });
    };
    byId("guidelines").addEventListener("close", read, { once: true });
    this.guidelines();
  }

  async signOut() {
    await remove("/session").catch(() => null);
    this.desk.signedOut = true;
    this.changed({ type: "failed" });
  }

  otherTab({ key, newValue, oldValue }) {
    if (!key?.startsWith(this.outbox.prefix)) return;
    this.desk.otherTab(newValue === null ? JSON.parse(oldValue) : JSON.parse(newValue), newValue === null);
  }

  progressed({ campaign, state }) {
    this.drawProgress(this.desk.turn?.progress.mine, campaign);
    const moved = this.state !== null && this.state !== state;
    this.state = state;
    if (moved || (this.desk.view !== "question" && !this.desk.away)) this.desk.refresh();
  }

  /** Something happened at the desk: say it, then draw what is there now. */
  changed(event) {
    this.say(event);
    if (["acknowledged", "refused", "turn"].includes(event.type)) this.recent.load();
    this.draw();
  }

  say({ type, act, result, error, question }) {
    if (type === "acted") this.news = act.type === "skip" ? words("skipped") : act.type === "correction" ? words("changed", { id: act.row, answer: answerText(act.answer) }) : words("recorded", { answer: answerText(act.answer) });
    if (type === "acted" && act.type === "correction") this.toast(this.news);
    if (type === "undoing") this.toast(words("undoing"));
    if (type === "unsent") this.toast(words("undo_unsent", { id: question.row_id }));
    if (type === "back") this.toast(words("back_online"));
    if (type === "acknowledged" && act.type === "undo") {
      this.toast(result.question ? words("undone", { id: result.question.row_id }) : words("undone_elsewhere"));
    }
    if (type === "acknowledged" && result.receipt?.late) this.toast(words(result.receipt.counted ? "late" : "late_uncounted"));
    if (type === "refused") this.toast(act.type === "undo" && error.status === 404 ? words("nothing_to_undo") : words("not_taken", { reason: error.message }));
  }

  draw() {
    const { desk } = this;
    const { view, current, turn } = desk;
    this.pictures.ahead(desk.open);
    if (view === "question") this.drawCase(current);
    else this.drawMessage(view);
    const idle = desk.undoing || desk.signedOut;
    const { answered = 0, skipped = 0 } = turn?.progress.mine ?? {};
    const mine = answered + skipped + this.outbox.waiting().length > 0;
    const closed = ["finished", "signed_out"].includes(view) || turn?.state === "finished";
    this.pad.update({ visible: view === "question", enabled: view === "question" && !idle, undo: mine && !idle && !closed });
    if (turn) this.drawProgress(turn.progress.mine, turn.progress.campaign);
    this.queue.draw();
    this.recent.draw();
    show(byId("recent-box"), mine || view === "question");
  }

  drawCase(question) {
    if (this.shown === question.id) return;
    const focus = document.activeElement;
    const before = this.held;
    if (before && !this.desk.settled.has(before.id) && performance.now() > before.until && before.row_id !== question.row_id) {
      this.toast(words("time_ran_out", { id: before.row_id }));
    }
    this.held = { ...question, until: this.desk.deadlines.get(question.id) };
    this.shown = question.id;
    byId("heading").parentElement.classList.remove("message");
    write(byId("heading"), words("case", { id: question.row_id }));
    fill(byId("case"), renderCase(question, this.pictures));
    this.pad.arrived();
    this.announce(`${this.news} ${words("next_case", { id: question.row_id })} ${spoken(question)}`.trim());
    this.news = "";
    scrollTo({ top: 0 });
    if (focus === null || focus === document.body) byId("heading").focus({ preventScroll: true });
  }

  drawMessage(view) {
    byId("heading").parentElement.classList.toggle("message", view !== "loading");
    const said = showMessage(view, this.desk);
    if (this.shown === view) return;
    const inside = byId("pad").contains(document.activeElement) || document.activeElement === document.body;
    this.shown = view;
    if (view === "loading") return;
    this.announce(`${this.news} ${said}`.trim());
    this.news = "";
    if (inside) byId("heading").focus({ preventScroll: true });
  }

  drawProgress(mine, campaign) {
    show(byId("progress"), true);
    if (mine) write(byId("mine"), words("mine", { n: mine.answered }));
    write(byId("everyone"), words("everyone", campaign));
    byId("meter").max = campaign.budget;
    byId("meter").value = campaign.answered;
    byId("meter").setAttribute("aria-valuetext", words("everyone", campaign));
  }

  announce(text) {
    write(byId("announcer"), text);
  }

  toast(text) {
    const box = byId("toast");
    write(box, text);
    show(box, true);
    this.announce(text);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => show(box, false), TOAST);
  }
}

/** What the owner says about the columns. */
function columns(descriptions) {
  const known = Object.entries(descriptions);
  if (!known.length) return null;
  return [el("h3", { text: words("columns_title") }), el("dl", {}, known.map(([name, text]) => [el("dt", { text: name }), el("dd", { text })]).flat())];
}

/** Who am I, and in which campaign? Waits for the server as long as it takes. */
async function introduce() {
  for (;;) {
    try {
      return await Promise.all([get("/me"), get("/campaign")]);
    } catch (error) {
      if (!error.retryable) throw error;
      write(byId("heading"), words("retrying"));
      await new Promise((again) => setTimeout(again, 1000 * (error.retryAfter ?? 2)));
    }
  }
}

function refuse(error) {
  const out = error.status === 401;
  byId("heading").parentElement.classList.add("message");
  write(byId("heading"), words(out ? "signed_out_title" : "failed_title"));
  const kept = waitingHere();
  fill(byId("case"), el("p", { text: out ? words("signed_out") : error.message }), out && kept ? el("p", { class: "note", text: words("signed_out_waiting", { n: kept }) }) : null);
  show(byId("recent-box"), false);
  byId("open-guidelines").disabled = true;
  byId("open-help").disabled = true;
}

translate();
try {
  const [me, campaign] = await introduce();
  const page = new Page(me, campaign);
  page.guidelinesFirst(me);
  await page.desk.begin();
} catch (error) {
  if (error.status === undefined) throw error;
  refuse(error);
}
