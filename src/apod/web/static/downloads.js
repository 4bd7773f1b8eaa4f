// Files to take away: the classifier and the report are built on demand, answers are written at once.
import { get, post } from "./api.js";
import { byId, el, fill } from "./dom.js";
import { words } from "./words.js";

const BUILT = ["classifier", "report"];
const FORMATS = [["csv", "CSV"], ["parquet", "Parquet"], ["jsonl", "JSON Lines"], ["label-studio", "Label Studio"]];

export class Downloads {
  constructor(toast) {
    this.toast = toast;
    this.states = new Map();
  }

  async load() {
    for (const state of await Promise.all(BUILT.map((what) => get(`/downloads/${what}`)))) this.states.set(state.what, state);
    this.draw();
  }

  async build(what) {
    try {
      this.states.set(what, await post(`/downloads/${what}`));
      this.draw();
    } catch (error) {
      this.toast(error.message || words("server_away"));
    }
  }

  draw() {
    const answers = el("li", {},
      el("h3", { text: words("answers_file") }), el("p", { text: words("answers_text") }),
      el("div", { class: "row" }, FORMATS.map(([format, name]) => el("a", { class: "button", href: `/api/v1/export/${format}`, download: true, text: name }))));
    fill(byId("downloads"), BUILT.map((what) => this.#built(what)), answers);
  }

  #built(what) {
    const { state, answers, stale, message } = this.states.get(what) ?? { state: "none" };
    const ready = state === "ready";
    const note = state === "failed" ? words("build_failed", { reason: message ?? "" }) : ready ? words(stale ? "stale" : "ready", { n: answers }) : state === "running" ? words("building") : "";
    const build = el("button", { type: "button", text: words(ready ? "build_again" : "build"), disabled: state === "running" || (ready && !stale), on: { click: () => this.build(what) } });
    const file = ready ? el("a", { class: "button", href: `/api/v1/downloads/${what}/file`, download: true, text: words("download") }) : null;
    return el("li", {},
      el("h3", { text: words(what) }), el("p", { text: words(`${what}_text`) }),
      el("div", { class: "row" }, file, ready && !stale ? null : build, el("p", { class: "note", role: "status", text: note })));
  }
}
