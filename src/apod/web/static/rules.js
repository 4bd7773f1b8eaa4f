// The owner's form: budget, what annotators are told, ending and archiving.
import { get, post, put } from "./api.js";
import { byId, el, fill } from "./dom.js";
import { words } from "./words.js";

const FIELDS = ["guidelines", "question-text", "purpose", "legal", "kind"];
const LARGEST = 60000; // bytes of a table that the server takes over the page
const NAMES = { guidelines: "guidelines", purpose: "purpose", "question-text": "question", legal: "legal_basis", kind: "kind" };

export class Rules {
  constructor(toast, changed) {
    this.toast = toast;
    this.changed = changed;
    byId("extend").addEventListener("submit", (event) => this.submit(event, () => this.extend()));
    byId("add").addEventListener("submit", (event) => this.submit(event, () => this.add()));
    byId("links").addEventListener("submit", (event) => this.submit(event, () => this.links()));
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

  async add() {
    const [file] = byId("add-file").files;
    if (file.size > LARGEST) throw new Error(words("add_too_large"));
    const { rows, total } = await post("/rows", { csv: await file.text() });
    byId("add-file").value = "";
    return words("added", { n: rows, total });
  }

  /** The links come as a file, this once: nothing keeps them. */
  async links() {
    const rows = byId("links-rows").value.split(/[\s,;]+/).filter(Boolean).map(Number);
    if (!rows.every((row) => Number.isInteger(row) && row >= 0)) throw new Error(words("links_wrong"));
    const text = await post("/links", { rows, days: Number(byId("links-days").value) }, "text/csv");
    const link = el("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: "links.csv" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    byId("links-rows").value = "";
    return words("links_made", { n: rows.length });
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
