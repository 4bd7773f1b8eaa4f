// The annotator's last ten answers, each of which can still be changed.
import { get } from "./api.js";
import { answerText, CANNOT_TELL, DECLINED, groupButtons, keyButton, widths } from "./buttons.js";
import { renderCase } from "./case.js";
import { Choices, place } from "./choices.js";
import { byId, el, fill, write } from "./dom.js";
import { words } from "./words.js";

const SHOWN = 10;

export class Recent {
  constructor(campaign, desk, failed) {
    this.campaign = campaign;
    this.desk = desk;
    this.failed = failed;
    this.answers = [];
    this.asking = null;
    this.dialog = byId("change");
    this.dialog.addEventListener("keydown", (event) => this.#key(event));
  }

  /** Ask the server what stands; calls while one is under way share it. */
  load() {
    this.asking ??= get("/answers")
      .then(({ answers }) => {
        this.answers = answers;
        this.draw();
      })
      .catch((error) => {
        if (error.status === undefined) throw error; // else: the next acknowledged answer asks again
      })
      .finally(() => (this.asking = null));
    return this.asking;
  }

  draw() {
    const waiting = this.desk.outbox.waiting().filter(({ type }) => type !== "undo").reverse();
    const corrected = new Map(waiting.filter(({ type }) => type === "correction").map((act) => [act.question, act]));
    const onTheWay = waiting.filter(({ type, question }) => type === "answer" && !this.answers.some((item) => item.question === question));
    const items = [
      ...onTheWay.map((act) => this.#line(act.row, answerText(act.answer), words("waiting_answer"), null)),
      ...this.answers.map((item) => this.#recorded(item, corrected.get(item.question))),
    ];
    fill(byId("recent"), items.length ? items.slice(0, SHOWN) : el("li", { class: "empty", text: words("recent_none") }));
  }

  #recorded(item, correction) {
    const answer = correction ? correction.answer : item.answer;
    const note = correction ? words("waiting_answer") : item.answer === null ? "" : item.counted ? "" : words("uncounted_answer");
    const said = answer === null ? words("erased_answer") : answerText(answer);
    const change = item.editable
      ? el("button", {
          type: "button", class: "quiet", text: words("change"), "aria-label": words("change_of", { id: item.row_id }),
          on: { click: () => this.open(item) },
        })
      : null;
    return this.#line(item.row_id, said, note, change);
  }

  #line(row, said, note, change) {
    const answer = el("span", { class: "said" }, said, note ? el("small", { text: note }) : null);
    return el("li", {}, el("span", { class: "which", text: row, title: words("case", { id: row }) }), answer, change);
  }

  /** Show the case again, with its present answer marked. */
  async open(item) {
    let question;
    try {
      question = await get(`/questions/${encodeURIComponent(item.question)}`);
    } catch (error) {
      this.failed(error);
      return;
    }
    write(byId("change-title"), words("change_title", { id: item.row_id }));
    write(byId("change-now"), words("change_now", { answer: answerText(item.answer) }));
    fill(byId("change-case"), renderCase(question));
    const choose = (answer) => {
      this.dialog.close();
      if (answer !== item.answer) this.desk.correct(item.question, item.row_id, answer);
    };
    if (this.campaign.attributes.length > 1) {
      this.#several(item, choose);
      return;
    }
    const buttons = groupButtons(this.campaign.groups, choose);
    buttons.push(keyButton("0", words(CANNOT_TELL), () => choose(CANNOT_TELL)), keyButton("d", words(DECLINED), () => choose(DECLINED)));
    [...this.campaign.groups, CANNOT_TELL, DECLINED].forEach((answer, place) => {
      buttons[place].setAttribute("aria-pressed", String(answer === item.answer));
    });
    fill(byId("change-groups"), buttons).className = ["groups", "wide", widths(this.campaign.groups)[0]].join(" ");
    this.dialog.showModal();
  }

  /** All attributes, as they were answered; changed as a whole. */
  #several(item, choose) {
    const now = Object.fromEntries(Object.entries(typeof item.answer === "object" ? item.answer : {}).filter(([, part]) => part !== null));
    const same = (answer) => Object.entries(answer).every(([name, part]) => item.answer[name] === part);
    const complete = (answer) => choose(same(answer) ? item.answer : answer);
    const choices = new Choices(this.campaign.attributes, { complete, now, confirm: words("change_save") });
    place(byId("change-groups"), choices);
    byId("change-groups").append(el("div", { class: "groups" }, keyButton("d", words(DECLINED), () => choose(DECLINED))));
    this.dialog.showModal();
  }

  #key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || event.repeat || event.key.length !== 1) return;
    const found = byId("change-groups").querySelector(`[aria-keyshortcuts="${CSS.escape(event.key.toLowerCase())}"]`);
    if (found) {
      event.preventDefault();
      event.stopPropagation(); // the case behind the dialog must not be answered by the same key
      found.click();
    }
  }
}
