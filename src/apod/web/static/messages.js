// What the page says when there is no case, and how the connection is doing.
import { byId, el, fill, show, write } from "./dom.js";
import { span, words } from "./words.js";

/** Title and paragraphs for each reason why there is no case. */
function explanation(view, desk) {
  const { turn, outbox } = desk;
  const waiting = outbox.waiting().length;
  if (view === "signed_out") return ["signed_out_title", [words("signed_out")], waiting ? words("signed_out_waiting", { n: waiting }) : ""];
  if (view === "offline") return ["offline_title", [words("offline")], ""];
  if (view === "wait") {
    const { with_others: n, retry_after: after } = turn;
    return ["wait_title", [n && after !== null ? words("wait", { n, span: span(after) }) : words("wait_unknown")], words("wait_note")];
  }
  if (view === "done") {
    const { mine, campaign } = turn.progress;
    return ["done_title", [words("done", { n: campaign.budget }), ...(mine.answered ? [words("done_mine", { n: mine.answered })] : [])], ""];
  }
  if (view === "finished" && turn.progress.mine.answered) {
    return ["finished_title", [words("finished"), words("finished_mine", { n: turn.progress.mine.answered })], ""];
  }
  if (["preparing", "finished", "exhausted", "paused"].includes(view)) return [`${view}_title`, [words(view)], ""];
  return ["loading", [], ""];
}

/** Show why there is no case. */
export function showMessage(view, desk) {
  const [title, paragraphs, note] = explanation(view, desk);
  write(byId("heading"), words(title));
  fill(byId("case"), paragraphs.map((text) => el("p", { text })), note ? el("p", { class: "note", text: note }) : null);
  return [words(title), ...paragraphs].join(". ");
}

/** The strip under the header: how many answers wait, and when the next try is. Hidden while all is well. */
export class Queue {
  constructor(desk) {
    this.desk = desk;
    this.text = el("p");
    this.next = el("p", { class: "note", "aria-live": "off" });
    this.button = el("button", { type: "button", text: words("try_now"), on: { click: () => desk.tryNow() } });
    fill(byId("queue"), this.text, this.next, this.button);
    setInterval(() => this.draw(), 1000);
  }

  draw() {
    const { away, outbox, retryAt, signedOut } = this.desk;
    const waiting = outbox.waiting().length;
    show(byId("queue"), away && !signedOut);
    if (!away || signedOut) return;
    const parts = [words("server_away")];
    if (waiting) parts.push(words("queue", { n: waiting }));
    if (waiting && !outbox.durable) parts.push(words("queue_memory"));
    write(this.text, parts.join(" "));
    const left = retryAt === null ? 0 : (retryAt - performance.now()) / 1000;
    write(this.next, left > 0.5 ? words("queue_retry", { span: span(left) }) : words("queue_now"));
  }
}
