// Annotators, invitations and who has access.
import { get, post, remove } from "./api.js";
import { byId, el, fill, show, write } from "./dom.js";
import { ago, decimal, percent, span, words } from "./words.js";

const since = (moment) => ago((Date.now() - Date.parse(moment)) / 1000);

/** Everybody's pace and agreement. */
export function drawAnnotators({ annotators, campaign }) {
  const { agreement } = campaign;
  const nobody = annotators.length === 0;
  show(byId("annotators-box"), !nobody);
  if (nobody) write(byId("agreement"), words("annotators_none"));
  else write(byId("agreement"), agreement === null ? words("agreement_none") : words("agreement", { kappa: decimal(agreement) }));
  fill(byId("annotators"), annotators.map((one) => {
    const kappas = Object.values(one.kappa).filter((value) => value !== null);
    const kappa = kappas.length ? decimal(kappas.reduce((sum, value) => sum + value, 0) / kappas.length) : words("unknown_number");
    const cells = [
      decimal(one.answered, 0), one.per_hour === null ? words("unknown_number") : decimal(one.per_hour, 0),
      one.median_seconds === null ? words("unknown_number") : span(one.median_seconds), decimal(one.skipped, 0), decimal(one.late, 0), decimal(one.holding, 0),
      percent(one.accuracy, 0), kappa, one.last_at === null ? words("unknown_number") : since(one.last_at),
    ];
    return el("tr", {}, el("th", { scope: "row", text: one.name }), cells.map((text) => el("td", { text })));
  }));
}

export class Access {
  constructor(toast) {
    this.toast = toast;
    byId("invite").addEventListener("submit", (event) => {
      event.preventDefault();
      this.invite();
    });
  }

  async load() {
    const { access } = await get("/access");
    const working = access.filter(({ state }) => state === "active");
    const rows = working.map((one) => el("tr", {},
      el("th", { scope: "row", text: one.name }),
      el("td", { class: "word", text: words(`role_${one.role}`) }),
      el("td", { class: "word", text: one.current ? words("this_one") : words(`what_${one.what}`) }),
      el("td", { text: new Date(one.expires_at).toLocaleDateString(document.documentElement.lang, { day: "numeric", month: "short" }) }),
      el("td", {}, one.current ? null : el("button", { type: "button", class: "quiet", text: words("revoke"), "aria-label": words("revoke_of", { name: one.name }), on: { click: () => this.revoke(one) } }))));
    fill(byId("access"), rows.length ? rows : el("tr", {}, el("td", { class: "empty", colspan: 5, text: words("access_none") })));
  }

  async invite() {
    const name = byId("invite-name").value.trim();
    try {
      const { link } = await post("/access", { name, role: byId("invite-role").value, what: "link", days: Number(byId("invite-days").value) });
      this.#shown(name, link);
      byId("invite-name").value = "";
      await this.load();
    } catch (error) {
      this.toast(error.message || words("server_away"));
    }
  }

  #shown(name, link) {
    const field = el("input", { type: "text", readonly: true, "aria-label": words("invited", { name }), value: link, on: { focus: () => field.select() } });
    const copy = el("button", {
      type: "button", text: words("copy"),
      on: {
        click: async () => {
          field.select();
          await navigator.clipboard?.writeText(link).then(() => this.toast(words("copied"))).catch(() => null); // selected: copied by hand
        },
      },
    });
    fill(byId("invited"), el("div", { class: "invited" }, el("p", { text: words("invited", { name }) }), el("div", { class: "link" }, field, copy)));
  }

  async revoke({ id, name }) {
    try {
      await remove(`/access/${encodeURIComponent(id)}`);
      this.toast(words("revoked", { name }));
      await this.load();
    } catch (error) {
      this.toast(error.message || words("server_away"));
    }
  }
}
