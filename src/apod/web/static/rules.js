// The owner's form: budget, what annotators are told, ending and archiving.
import { get, put } from "./api.js";
import { byId, el, fill } from "./dom.js";
import { words } from "./words.js";

const FIELDS = ["guidelines", "question-text", "legal", "kind"];
const NAMES = { guidelines: "guidelines", "question-text": "question", legal: "legal_basis", kind: "kind" };

export class Rules {
  constructor(toast, changed) {
    this.toast = toast;
    this.changed = changed;
    byId("extend").addEventListener("submit", (event) => this.submit(event, () => this.extend()));
    byId("rules").addEventListener("submit", (event) => this.submit(event, () => this.save()));
    byId("end").addEventListener("click", () => this.ask("end"));
    byId("archive").addEventListener("click", () => this.ask("archive"));
  }

  async load(campaign) {
    byId("budget").value = campaign.budget;
    const now = await get("/settings");
    for (const id of FIELDS) byId(`rules-${id}`).value = now[NAMES[id]] ?? "";
    fill(byId("descriptions"), now.columns.map((column) => el("label", {},
      el("span", { text: words("description_of", { column }) }),
      el("input", { type: "text", "data-column": column, maxlength: 500, autocomplete: "off", value: now.descriptions[column] ?? "" }))));
  }

  async submit(event, act) {
    event.preventDefault();
    try {
      this.toast(await act());
      await this.changed();
    } catch (error) {
      this.toast(error.message || words("server_away"));
    }
  }

  async extend() {
    const { budget } = await put("/budget", { budget: Number(byId("budget").value) });
    return words("extended", { n: budget });
  }

  async save() {
    const descriptions = {};
    for (const field of byId("descriptions").querySelectorAll("input")) {
      if (field.value.trim()) descriptions[field.dataset.column] = field.value.trim();
    }
    await put("/settings", { ...Object.fromEntries(FIELDS.map((id) => [NAMES[id], byId(`rules-${id}`).value])), descriptions });
    return words("rules_saved");
  }

  /** Ending cannot be undone here: it is asked about first. */
  ask(what) {
    const dialog = byId("sure");
    fill(byId("sure-text"), el("p", { text: words(`${what}_sure`) }));
    dialog.onclose = async () => {
      if (dialog.returnValue !== "yes") return;
      try {
        await put("/state", { state: what === "end" ? "finished" : "archived" });
        await this.changed();
      } catch (error) {
        this.toast(error.message || words("server_away"));
      }
    };
    dialog.returnValue = "";
    dialog.showModal();
  }
}
