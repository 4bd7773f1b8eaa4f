// What lies on an annotator's desk: the case at hand, the one behind it, and answers on their way to the server.
// No part of the page stands here; `changed` is called after everything that happens, with what it was.
import { post } from "./api.js";

const FIRST_WAIT = 1000;
const LONGEST_WAIT = 15000;
const LOOK_AGAIN = 30000;
const LOCK = "apod.sending";

const PATHS = {
  answer: ({ question }) => `/questions/${encodeURIComponent(question)}/answer`,
  skip: ({ question }) => `/questions/${encodeURIComponent(question)}/skip`,
  correction: ({ question }) => `/questions/${encodeURIComponent(question)}/correction`,
  undo: () => "/undo",
};

/** Run alone among this browser's tabs. Plain http has no locks; idempotency keys keep that harmless. */
function exclusively(work) {
  return navigator.locks ? navigator.locks.request(LOCK, work) : work();
}

export class Desk {
  constructor(outbox, changed) {
    this.outbox = outbox;
    this.changed = changed;
    this.turn = null;
    this.deadlines = new Map(); // question id -> when its lease ends, by this page's own clock
    this.settled = new Set(); // questions answered or skipped here or in another tab
    this.shown = new Map(); // act key -> its question, to bring it back when the act is undone before it was sent
    this.away = false; // whether the last request failed
    this.signedOut = false;
    this.retryAt = null;
    this.wait = FIRST_WAIT;
    this.sending = false;
    this.asking = null;
    this.timer = null; // next try after a failure
    this.looking = null; // next look by oneself
  }

  /** Take up where the last page left off. */
  async begin() {
    for (const act of this.outbox.waiting()) if (act.question) this.settled.add(act.question);
    await this.refresh();
    this.send();
  }

  get open() {
    return (this.turn?.questions ?? []).filter(({ id }) => !this.settled.has(id));
  }

  get current() {
    return this.open[0] ?? null;
  }

  get undoing() {
    return this.outbox.waiting().some(({ type }) => type === "undo");
  }

  /** What the page should show: "question", or why there is none. */
  get view() {
    if (this.signedOut) return "signed_out";
    if (this.current) return "question";
    if (this.away) return "offline";
    if (this.turn === null || this.turn.state === "question" || this.outbox.waiting().length) return "loading";
    return this.turn.state;
  }

  answer(value) {
    return this.#settle({ type: "answer", answer: value });
  }

  skip() {
    return this.#settle({ type: "skip" });
  }

  #settle(act) {
    const question = this.current;
    if (question === null || this.undoing) return null;
    const kept = this.outbox.put({ ...act, question: question.id, row: question.row_id });
    this.settled.add(question.id);
    this.shown.set(kept.key, question);
    this.changed({ type: "acted", act: kept });
    this.send();
    return kept;
  }

  /** Replace an earlier answer. */
  correct(question, row, value) {
    const kept = this.outbox.put({ type: "correction", question, row, answer: value });
    this.changed({ type: "acted", act: kept });
    this.send();
  }

  /** Take the last act back: here, if it never left this browser; else by asking the server. */
  undo() {
    if (this.undoing) return;
    const last = this.outbox.waiting().at(-1);
    const question = last && this.shown.get(last.key);
    if (last && question && last.tried === 0 && last.key !== this.sending) {
      this.outbox.erase(last);
      this.settled.delete(last.question);
      const others = (this.turn?.questions ?? []).filter(({ id }) => id !== question.id);
      this.turn = { ...this.turn, state: "question", questions: [question, ...others] };
      this.changed({ type: "unsent", question });
      return;
    }
    this.outbox.put({ type: "undo" });
    this.changed({ type: "undoing" });
    this.send();
  }

  /** Another tab acted on a question, or delivered it. */
  otherTab(act, delivered) {
    if (delivered) this.refresh();
    else if (act?.question && act.type !== "correction") {
      this.settled.add(act.question);
      this.changed({ type: "elsewhere" });
    }
  }

  /** Ask the server for the current questions; one request at a time. */
  refresh() {
    this.asking ??= this.#ask().finally(() => (this.asking = null));
    return this.asking;
  }

  async #ask() {
    try {
      this.#take(await post("/turn"));
      this.#reached();
      this.changed({ type: "turn" });
    } catch (error) {
      this.#failed(error);
    }
  }

  /** Send what waits, oldest first, until nothing does or the server is away. */
  async send() {
    if (this.sending) return;
    clearTimeout(this.timer);
    this.retryAt = null;
    let act;
    while ((act = this.outbox.waiting()[0])) {
      this.sending = act.key;
      try {
        await exclusively(() => this.#deliver(act));
      } catch (error) {
        if (!(await this.#refused(act, error))) break;
      }
    }
    this.sending = false;
    if (this.signedOut || this.outbox.waiting().length) return;
    this.changed({ type: "sent" });
    if (!this.current && (this.turn === null || this.turn.state === "question")) this.refresh();
  }

  async #deliver(act) {
    if (!this.outbox.has(act)) return; // another tab was faster
    this.outbox.tried(act);
    const { type, key, answer } = act;
    const result = await post(PATHS[type](act), answer === undefined ? { key } : { answer, key });
    this.outbox.erase(act);
    this.shown.delete(act.key);
    if (type === "undo" && result.question) this.settled.delete(result.question.id);
    this.#take(result.turn);
    this.#reached();
    this.changed({ type: "acknowledged", act, result });
  }

  /** Whether to go on with the next act after this one failed. */
  async #refused(act, error) {
    if (error.status === undefined) throw error; // a mistake of this page, not an answer of the server
    if (error.retryable || error.status === 401) {
      this.#failed(error);
      return false;
    }
    this.outbox.erase(act);
    this.shown.delete(act.key);
    this.settled.delete(act.question);
    this.#reached();
    this.changed({ type: "refused", act, error });
    await this.refresh();
    return !this.away;
  }

  #take(turn) {
    this.turn = turn;
    const now = performance.now();
    this.deadlines = new Map(turn.questions.map(({ id, expires_in }) => [id, now + 1000 * expires_in]));
    clearTimeout(this.looking);
    const due = this.#nextLook();
    if (due !== null) this.looking = setTimeout(() => this.refresh(), due);
  }

  /** When to ask again by oneself: when a lease ends, when others' leases do, when the next case may be ready. */
  #nextLook() {
    const { state, questions, retry_after: after } = this.turn;
    if (state === "question" && !this.open.length && !this.outbox.waiting().length) return 1000; // the answers crossed
    if (state === "question") return Math.min(...questions.map(({ expires_in }) => 1000 * expires_in)) + 500;
    if (state === "done" || state === "finished") return null;
    return Math.min(LOOK_AGAIN, Math.max(300, 1000 * (after ?? 30)));
  }

  #reached() {
    const back = this.away;
    this.away = false;
    this.wait = FIRST_WAIT;
    this.retryAt = null;
    if (back) this.changed({ type: "back" });
  }

  #failed(error) {
    if (error.status === undefined) throw error;
    if (error.status === 401) this.signedOut = true;
    else {
      this.away = true;
      const wait = error.retryAfter === null ? this.wait : 1000 * error.retryAfter;
      this.wait = Math.min(LONGEST_WAIT, 2 * this.wait);
      this.retryAt = performance.now() + wait;
      clearTimeout(this.timer);
      this.timer = setTimeout(() => (this.outbox.waiting().length ? this.send() : this.refresh()), wait);
    }
    this.changed({ type: "failed", error });
  }

  /** Do not wait for the next try. */
  tryNow() {
    if (this.signedOut) return;
    this.wait = FIRST_WAIT;
    if (this.outbox.waiting().length) this.send();
    else if (this.away || this.view !== "question") this.refresh();
  }
}
