// The owner's page: how accuracy and fairness move with every answer, and what to do about it.
import { get, put, remove } from "./api.js";
import { drawAudit, drawBound, drawMap, drawRates, drawRounds, drawSubgroups, gapText } from "./charts.js";
import { Curve } from "./curve.js";
import { byId, el, fill, show, write } from "./dom.js";
import { Downloads } from "./downloads.js";
import { listen } from "./events.js";
import { Access, drawAnnotators } from "./people.js";
import { loadPlotly } from "./plots.js";
import { ago, decimal, percent, span, translate, when, words } from "./words.js";

const TOAST = 3200;
const SOON = 150; // milliseconds: news that come together are fetched together

class Dashboard {
  constructor() {
    this.data = null;
    this.map = null;
    this.timer = null;
    this.staleSince = null; // when the server began to fail to read the campaign
    this.toasting = null;
    this.curve = new Curve((strength) => this.choose(strength), () => this.drawRatesNow());
    this.access = new Access((text) => this.toast(text));
    this.downloads = new Downloads((text) => this.toast(text));
    byId("automatic").addEventListener("click", () => this.choose(null));
    byId("pause").addEventListener("click", () => this.pause());
    byId("sign-out").addEventListener("click", () => this.signOut());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  async begin(me) {
    write(byId("who"), words("signed_in", { name: me.name }));
    show(byId("sign-out"), true);
    show(byId("main"), true);
    await this.load();
    await Promise.all([this.access.load(), this.downloads.load()]);
    listen({
      progress: (news) => this.progressed(news),
      refit: () => this.soon(),
      access: () => this.quietly(this.access.load()),
      download: () => this.quietly(this.downloads.load()),
      bye: () => this.soon(),
      stale: ({ since }) => this.stale(since),
    }, (yes) => this.connected(yes));
  }

  progressed({ seq }) {
    this.connected(true);
    if (seq !== this.data?.seq) this.soon();
  }

  soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.quietly(this.load().then(() => this.downloads.load())), SOON);
  }

  /** A request that may fail: the page says that it is not up to date, and tries again. */
  async quietly(request) {
    try {
      await request;
      this.connected(true);
    } catch (error) {
      if (error.status === undefined) throw error;
      if (error.status === 401) refuse(error);
      else {
        this.connected(false);
        clearTimeout(this.timer);
        this.timer = setTimeout(() => this.soon(), 3000);
      }
    }
  }

  connected(yes) {
    byId("live").classList.toggle("lost", !yes || this.staleSince !== null);
    write(byId("live"), !yes ? words("live_lost") : this.staleSince === null ? words("live") : words("live_stale", { when: when(this.staleSince) }));
  }

  stale(since) {
    this.staleSince = since;
    this.connected(true);
    if (since === null) this.soon();
  }

  async load() {
    this.data = await get("/dashboard");
    const { length } = this.data.history; // the map is made with the first model
    if (length && (this.map === null || this.mapped !== this.data.seq)) await this.loadMap();
    this.connected(true);
    this.draw();
  }

  async loadMap() {
    try {
      this.map = await get("/dashboard/map");
      this.mapped = this.data.seq;
    } catch (error) {
      if (error.status !== 404) throw error; // not computed yet
    }
  }

  /** The strength the page shows: the owner's choice, or the one that asks. */
  get strength() {
    const { chosen, history, strengths } = this.data;
    if (chosen !== null) return chosen;
    const asking = history.findLast(({ bound }) => bound?.strength !== undefined)?.bound.strength;
    return asking ?? strengths.at(-1);
  }

  draw() {
    const { data } = this;
    const { campaign, history } = data;
    this.drawHead(campaign, history);
    show(byId("pictures"), history.length > 0);
    if (history.length) {
      this.curve.update(data, this.strength);
      drawRounds(data, this.strength);
      drawAudit(history.at(-1).audit);
      this.drawRatesNow();
    }
    write(byId("chosen"), words(data.chosen === null ? "not_chosen" : "chosen", { strength: decimal(this.strength, 2) }));
    show(byId("automatic"), data.chosen !== null);
    this.drawAsked(data);
    drawBound(data);
    const bound = history.at(-1)?.bound;
    if (bound) write(byId("bound-now"), words("bound_now", { bound: decimal(bound.bound, 3), observed: decimal(bound.observed, 3) }));
    drawAnnotators(data);
  }

  drawRatesNow() {
    const last = this.data.history.at(-1);
    if (last?.rates) drawRates(last, this.strength, this.data.campaign.labels);
  }

  drawHead(campaign, history) {
    document.title = words("dashboard_title", { campaign: campaign.name });
    const [negative, positive] = campaign.labels;
    for (const rate of ["tpr", "fpr"]) write(byId(`term-${rate}`), words(`term_${rate}`, { negative, positive }));
    show(byId("terms"), true);
    write(byId("state"), words(`state_${campaign.state}`));
    const pause = byId("pause");
    show(pause, campaign.state === "open" || campaign.state === "paused");
    write(pause, words(campaign.state === "paused" ? "go_on" : "pause"));
    const last = history.at(-1);
    const none = last?.curve.find(({ strength }) => strength === 0);
    const now = last?.curve.find(({ strength }) => strength === this.strength);
    write(byId("heading"), campaign.name);
    write(byId("lead"), lead(campaign, last, none, now, this.strength));
    fill(byId("cards"), cards(campaign, this.data.pace, none, now));
    fill(byId("cautions"), cautions(campaign, last, this.strength).map(([title, text]) => el("div", { class: "caution", role: "note" }, el("p", {}, el("b", { text: title }), " ", text))));
    write(byId("freshness"), freshness(campaign, last));
  }

  drawAsked({ asked, subgroups, campaign }) {
    show(byId("asked-section"), asked.length > 0);
    if (!asked.length) return;
    drawSubgroups(this.data, campaign.groups, campaign.labels);
    show(byId("map"), this.map !== null);
    if (this.map) {
      drawMap(this.map, campaign.groups, campaign.labels);
      const share = percent(this.map.variance.reduce((sum, value) => sum + value, 0), 0);
      write(byId("map-note"), words("map_variance", { share, shown: this.map.shown, rows: this.map.rows }));
    } else write(byId("map-note"), words("map_none"));
    byId("subgroups").setAttribute("aria-label", subgroups.counts.map(({ group, label, counts }) => `${words("subgroup", { group, label })}: ${counts.at(-1) ?? 0}`).join(". "));
    fill(byId("asked"), asked.map((one) => el("tr", {},
      el("th", { scope: "row", text: String(one.question) }),
      el("td", { class: "word", text: one.row_id }),
      el("td", { class: "word", text: ruleText(one.rule) }),
      el("td", { class: "word", text: one.group === null ? one.label ?? words("unknown_number") : words("subgroup", { group: one.group, label: one.label }) }),
      el("td", { text: decimal(one.distance) }),
      el("td", { class: "word", text: words(one.answered ? "yes" : "no") }),
      el("td", { text: ago((Date.now() - Date.parse(one.at)) / 1000) }))));
  }

  async choose(strength) {
    try {
      const { chosen } = await put("/operating-point", { strength });
      this.data.chosen = chosen;
      this.draw();
      this.toast(chosen === null ? words("unchosen_toast") : words("chosen_toast", { strength: decimal(chosen, 2) }));
    } catch (error) {
      this.toast(error.message || words("server_away"));
    }
  }

  async pause() {
    const wanted = this.data.campaign.state === "paused" ? "open" : "paused";
    try {
      await put("/state", { state: wanted });
      await this.load();
    } catch (error) {
      this.toast(error.message || words("server_away"));
    }
  }

  async signOut() {
    await remove("/session").catch(() => null);
    refuse({ status: 401 });
  }

  toast(text) {
    const box = byId("toast");
    write(box, text);
    show(box, true);
    clearTimeout(this.toasting);
    this.toasting = setTimeout(() => show(box, false), TOAST);
  }
}

const RULES = new Set(["apod", "random", "gold", "import"]);

function ruleText(rule) {
  if (rule === null) return words("unknown_number");
  return RULES.has(rule) ? words(`rule_${rule}`) : rule;
}

function lead({ answered: answers, budget }, last, none, now, strength) {
  if (!last) return words("lead_none");
  if (!now || now.gap === null || none.gap === null) return words("lead_undefined", { answers, budget });
  const proxy = words("lead", {
    answers, budget, strength: decimal(strength, 2), before: decimal(100 * none.gap, 1), after: decimal(100 * now.gap, 1), was: percent(none.accuracy), now: percent(now.accuracy),
  });
  const { audit } = last;
  if (!audit?.before || !audit?.after) return proxy;
  return `${proxy} ${words("lead_audit", { n: audit.answers, before: gapText(audit.before), after: gapText(audit.after) })}`;
}

function card(what, big, small, extra = null) {
  return el("li", {}, el("div", { class: "what", text: what }), el("div", { class: "big" }, big), extra, el("div", { class: "small", text: small }));
}

function change(before, after, text) {
  if (before === undefined || after === undefined) return [words("unknown_number")];
  return [el("span", { class: "was", text: text(before) }), " → ", text(after)];
}

function cards(campaign, pace, none, now) {
  const meter = el("progress", { max: campaign.budget, value: campaign.answered, "aria-label": words("progress") });
  const between = (low, high, text) => (low === undefined || low === null ? "" : words("interval_95", { low: text(low), high: text(high) }));
  const gap = (value) => decimal(value === null ? null : 100 * value, 1);
  const over = campaign.state === "done" || campaign.state === "finished";
  const left = over ? words("left_done") : pace.seconds_left === null ? words("unknown_number") : span(pace.seconds_left);
  return [
    card(words("card_answers"), words("of", { n: campaign.answered, total: campaign.budget }), words("card_answers_small", campaign), meter),
    card(words("card_gap"), change(none?.gap, now?.gap, gap), between(now?.gap_low, now?.gap_high, gap)),
    card(words("card_accuracy"), change(none?.accuracy, now?.accuracy, percent), between(now?.low, now?.high, percent)),
    card(words("card_left"), left, over ? "" : pace.per_hour === null ? words("card_left_none") : words("card_left_small", { pace: decimal(pace.per_hour, 0) })),
  ];
}

function cautions({ state, labels, reminders, refit_failures: failures, measuring_failure: unmeasured }, last, strength) {
  const found = reminders.map((text) => [words("reminder"), text]);
  if (state === "paused") found.unshift([words("paused_now"), ""]);
  if (failures) found.push([words("refit_failed", { n: failures }), shownSince(last)]);
  if (unmeasured !== null) found.push([words("measuring_failed", { type: unmeasured }), shownSince(last)]);
  const place = last?.curve.findIndex((point) => point.strength === strength) ?? -1;
  if (place >= 0 && last.rates) {
    const whole = last.rates.reduce((sum, { size }) => sum + size, 0);
    const share = (of) => last.rates.reduce((sum, entry) => sum + entry.size * (of(entry)?.selection_rate ?? 0), 0) / whole;
    const before = share((entry) => entry.before);
    const after = share((entry) => entry.after[place]);
    if (after < 0.2 * before) found.push([words("caution_nobody_title", { positive: labels[1] }), words("caution_nobody", { before: percent(before), after: percent(after) })]);
  }
  return found;
}

function freshness({ refitting, behind }, last) {
  if (refitting) return [words("refitting"), shownSince(last)].join(" ");
  return behind ? [words("behind", { n: behind }), shownSince(last)].join(" ") : words("fresh");
}

/** Since when the pictures have stood still. */
function shownSince(last) {
  return last ? words("shown_since", { when: when(last.at), n: last.answers }) : "";
}

function refuse({ status, message }) {
  const title = status === 401 ? "signed_out_title" : status === 403 ? "not_owner_title" : "failed_title";
  write(byId("heading"), words(title));
  write(byId("lead"), status === 401 ? words("signed_out") : status === 403 ? words("not_owner") : message || words("server_away"));
  show(byId("main"), false);
  show(byId("terms"), false);
  for (const id of ["cards", "cautions", "freshness"]) fill(byId(id));
  show(byId("pause"), false);
  show(byId("sign-out"), false);
}

translate();
try {
  const me = await get("/me");
  if (me.role === "owner") {
    await loadPlotly();
    await new Dashboard().begin(me);
  } else refuse({ status: 403 });
} catch (error) {
  if (error.status === undefined) throw error;
  refuse(error);
}
