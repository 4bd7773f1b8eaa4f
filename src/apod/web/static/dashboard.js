// The owner's page: how accuracy and fairness move with every answer, and what to do about it.
import { get, post, put, remove } from "./api.js";
import { drawBound, drawMap, drawRates, drawRounds, drawSubgroups, gapText } from "./charts.js";
import { Curve, kindOf } from "./curve.js";
import { byId, el, fill, show, write } from "./dom.js";
import { Downloads } from "./downloads.js";
import { listen } from "./events.js";
import { Access, drawAnnotators } from "./people.js";
import { loadPlotly } from "./plots.js";
import { Rules } from "./rules.js";
import { ago, decimal, percent, span, strengthText, translate, when, words } from "./words.js";

const TOAST = 3200;
const SOON = 150; // milliseconds: news that come together are fetched together

class Dashboard {
  constructor() {
    this.data = null;
    this.map = null;
    this.timer = null;
    this.staleSince = null; // when the server began to fail to read the campaign
    this.toasting = null;
    this.curve = new Curve((strength) => this.choose(strength));
    this.access = new Access((text) => this.toast(text));
    this.rules = new Rules((text) => this.toast(text), () => this.load().catch((error) => refuse(error)));
    this.downloads = new Downloads((text) => this.toast(text));
    byId("automatic").addEventListener("click", () => this.choose(null));
    byId("choose-now").addEventListener("click", () => this.build());
    byId("pause").addEventListener("click", () => this.pause());
    byId("sign-out").addEventListener("click", () => this.signOut());
    addEventListener("resize", () => this.tellWide());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  async begin(me) {
    write(byId("who"), words("signed_in", { name: me.name }));
    show(byId("sign-out"), true);
    show(byId("main"), true);
    await this.load();
    await Promise.all([this.access.load(), this.downloads.load(), this.rules.load(this.data.campaign)]);
    listen({
      progress: (news) => this.progressed(news),
      refit: () => this.soon(),
      access: () => this.quietly(this.access.load()),
      download: () => this.soon(),
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

  /** The operating point of these answers; null until the owner or the classifier chose one. */
  get strength() {
    return this.data.operating?.strength ?? null;
  }

  /** What audit answers say: of the classifier built from these answers, or else of the base model. */
  get audit() {
    return [this.data.operating?.audit, this.data.history.at(-1)?.audit].find((audit) => audit?.before) ?? null;
  }

  /** Tables that are wider than the page say so. */
  tellWide() {
    for (const box of document.querySelectorAll(".scroll")) {
      const said = box.querySelector(".sideways");
      const wide = box.scrollWidth > box.clientWidth + 1;
      if (wide && !said) box.prepend(el("p", { class: "sideways", text: words("sideways") }));
      else if (!wide && said) said.remove();
    }
  }

  draw() {
    const { data } = this;
    const { campaign, history } = data;
    this.drawHead(campaign, history);
    show(byId("pictures"), history.length > 0);
    if (history.length) {
      for (const name of KINDS) write(byId(name.replaceAll("_", "-")), words(kindOf(history.at(-1), name)));
      this.curve.update(data, this.strength);
      drawRounds(data, this.strength);
      drawRates(this.audit, campaign.labels);
    }
    write(byId("chosen"), [pointText(data.operating), verifyText(data.operating), tellsText(history.at(-1)), confirmText(data.operating)].filter(Boolean).join(" "));
    show(byId("automatic"), data.chosen !== null);
    show(byId("choose-now"), data.operating === null);
    this.drawAttributes(data);
    this.drawAsked(data);
    drawBound(data);
    const bound = history.at(-1)?.bound;
    if (bound) write(byId("bound-now"), words("bound_now", { bound: decimal(bound.bound, 3), observed: decimal(bound.observed, 3) }));
    drawAnnotators(data);
    this.tellWide();
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
    write(byId("lead"), last ? lead(campaign, last, this.audit, this.data.operating) : words("lead_none"));
    fill(byId("cards"), cards(campaign, this.data.pace, last, this.audit, this.data.operating, none, now));
    fill(byId("cautions"), cautions(campaign, last, this.strength).map(([title, text]) => el("div", { class: "caution", role: "note" }, el("p", {}, el("b", { text: title }), " ", text))));
    write(byId("freshness"), freshness(campaign, last));
  }

  /** What came of asking about each of several attributes, and the gaps to expect in each. */
  drawAttributes({ campaign, operating }) {
    const { attributes, values_told: values, answered: answers } = campaign;
    show(byId("attributes-section"), attributes.length > 1);
    if (attributes.length < 2) return;
    write(byId("attributes-text"), words("attributes_text", { values, answers, first: attributes[0].name }));
    const gaps = operating?.estimate?.attributes ?? {};
    const gap = (name, which) => {
      const found = gaps[name]?.[which];
      return found?.says ? gapText({ value: found.gap, low: found.interval[0], high: found.interval[1] }) : words("gap_unknown");
    };
    const crossed = gaps.intersections ? [{ name: words("intersections"), key: "intersections", groups: [] }] : [];
    fill(byId("attributes"), [...attributes, ...crossed].map(({ name, key, groups, told, cannot_tell: unsaid, declined, agreement }) => el("tr", {},
      el("th", { scope: "row", class: "word", text: name }),
      el("td", { class: "word", text: groups.join(", ") }),
      [told, unsaid, declined].map((count) => el("td", { text: count === undefined ? "" : String(count) })),
      el("td", { text: agreement === null || agreement === undefined ? words("unknown_number") : decimal(agreement) }),
      ["base", "selected"].map((which) => el("td", { text: gap(key ?? name, which) })))));
  }

  drawAsked({ asked, subgroups, campaign }) {
    show(byId("asked-section"), asked.length > 0);
    if (!asked.length) return;
    const rules = [...new Set(asked.map(({ rule }) => ruleText(rule)))].toReversed();
    write(byId("asked-text"), words("asked_text", { rules: rules.join("; ") }));
    const distances = asked.some(({ distance }) => distance !== null); // not every rule looks at them
    show(byId("distance-column"), distances);
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
      distances && el("td", { text: decimal(one.distance) }),
      el("td", { class: "word", text: words(one.answered ? "yes" : "no") }),
      el("td", { text: ago((Date.now() - Date.parse(one.at)) / 1000) }))));
  }

  async choose(strength) {
    try {
      const { chosen } = await put("/operating-point", { strength });
      await this.load();
      this.toast(chosen === null ? words("unchosen_toast") : words("chosen_toast", { strength: strengthText(chosen) }));
    } catch (error) {
      this.toast(error.message || words("server_away"));
    }
  }

  async build() {
    try {
      await post("/downloads/classifier", {});
      this.soon();
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

const KINDS = ["curve_text", "basis", "strengths_caption", "gap", "rounds_text", "term_strength"]; // they differ where gaps have intervals
const RULES = new Set(["gold", "import"]);

function ruleText(rule) {
  if (rule === null) return words("unknown_number");
  return RULES.has(rule) ? words(`rule_${rule}`) : rule;
}

function pointText(operating) {
  if (operating === null) return words("point_none");
  const { strength, because, by } = operating;
  const values = { strength: strengthText(strength), because };
  if (by === "owner") return words(strength === 0 ? "point_owner_zero" : "point_owner", values);
  return words(strength === 0 ? "point_kept" : "point_taken", values);
}

/** What fresh answers say of the correction, where the campaign verifies it. */
function verifyText(operating) {
  return operating?.verification ? words("verified", { text: operating.verification.words }) : "";
}

/** The smallest gap that the budget's answers alone tell from none. */
function tellsText(last) {
  const { smallest_gap: gap, answers, probability } = last?.outlook ?? {};
  if (gap === undefined || gap === null) return "";
  return gap > 2 ? words("tells_nothing", { answers }) : words("tells_gap", { answers, gap: decimal(100 * gap, 0), probability: percent(probability, 0) });
}

/** How many fresh answers would confirm the leading correction. */
function confirmText(operating) {
  if (!operating?.confirmation || (operating.verification?.asked ?? 0) > 0) return "";
  const { confirming_answers: n, probability } = operating.confirmation;
  return n === null ? words("confirm_never") : words("confirm", { n, probability: percent(probability, 0) });
}

/** What is known of the gap, the narrowest first: from audit answers, or from what the training answers lead to expect. */
function knownGap(audit, operating) {
  const width = ({ low, high }) => high - low;
  const expected = operating?.estimate && ["base", "selected"].map((name) => {
    const { gap, interval: [low, high], says } = operating.estimate[name];
    return { value: gap, low, high, says };
  });
  const measured = audit?.before.says ? [audit.before, audit.after].filter((gap) => gap?.says) : [];
  const foreseen = expected?.[0].says ? expected.slice(0, operating.strength > 0 ? 2 : 1) : [];
  if (measured.length && !(foreseen.length && width(foreseen[0]) < width(measured[0]))) return { gaps: measured, by: "audit" };
  return { gaps: foreseen, by: "posterior", widest: expected?.[0] ?? null };
}

function lead(campaign, last, audit, operating) {
  const { answered: answers, budget, by_purpose: purposes, audit_planned: planned, audit_needed: needed } = campaign;
  const asked = purposes.audit ?? 0;
  const counts = words(purposes.verification ? "lead_counts_verifying" : "lead_counts", { answers, budget, training: purposes.training ?? 0, audit: asked, verifying: purposes.verification ?? 0 });
  const values = { audit: asked, planned, needed };
  const { gaps, by, widest } = knownGap(audit, operating);
  let gap;
  if (gaps.length) {
    const [before, after] = gaps.map(gapText);
    const [one, two] = by === "audit" ? ["lead_gap_base", "lead_gap_both"] : ["lead_gap_base_expected", "lead_gap_both_expected"];
    gap = words(gaps.length > 1 ? two : one, { n: by === "audit" ? audit.answers : last.answers, before, after });
  } else if (widest && widest.low !== null) gap = words("lead_gap_little", { n: last.answers, gap: gapText({ ...widest, value: null }) });
  else gap = words(planned === 0 ? "lead_gap_none" : planned < needed ? "lead_gap_few" : "lead_gap_yet", values);
  const handed = campaign.known ? ` ${words("lead_known", { known: campaign.known })}` : "";
  return `${counts}${handed} ${gap} ${pointText(operating)}`;
}

function card(what, big, small, extra = null) {
  return el("li", {}, el("div", { class: "what", text: what }), el("div", { class: "big" }, big), extra, el("div", { class: "small", text: small }));
}

function change(before, after, text) {
  if (before === undefined || after === undefined) return [words("unknown_number")];
  return [el("span", { class: "was", text: text(before) }), " → ", text(after)];
}

function cards(campaign, pace, last, audit, operating, none, now) {
  const meter = el("progress", { max: campaign.budget, value: campaign.answered, "aria-label": words("progress") });
  const over = campaign.state === "done" || campaign.state === "finished";
  const left = over ? words("left_done") : pace.seconds_left === null ? words("unknown_number") : span(pace.seconds_left);
  const accuracy = now && now !== none ? change(none?.accuracy, now.accuracy, percent) : [percent(none?.accuracy)];
  return [
    card(words("card_answers"), words("of", { n: campaign.answered, total: campaign.budget }), words("card_answers_small", campaign), meter),
    gapCard(campaign, last, audit, operating),
    card(words("card_accuracy"), accuracy, words(kindOf(last, "card_accuracy_small"))),
    card(words("card_left"), left, over ? "" : pace.per_hour === null ? words("card_left_none") : words("card_left_small", { pace: decimal(pace.per_hour, 0) })),
  ];
}

function gapCard({ by_purpose: purposes, audit_needed: needed }, last, audit, operating) {
  const { gaps: known, by, widest } = knownGap(audit, operating);
  const title = words(by === "audit" || !widest ? "card_gap" : "card_gap_expected");
  if (!known.length) {
    const small = widest && widest.low !== null
      ? words("card_gap_little", { n: last.answers, gap: gapText({ ...widest, value: null }) })
      : words("card_gap_small", { audit: purposes.audit ?? 0, needed });
    return card(title, words("card_gap_unknown"), small);
  }
  const short = ({ low, high }) => words("interval", { low: decimal(100 * low, 1), high: decimal(100 * high, 1) });
  const big = known.length > 1 ? change(...known, short) : [short(known[0])];
  return card(title, big, by === "audit" ? words("card_gap_audited", { n: audit.answers }) : words("card_gap_foreseen", { n: last.answers }));
}

function cautions({ state, labels, reminders, refit_failures: failures, measuring_failure: unmeasured }, last, strength) {
  const found = reminders.map((text) => [words("reminder"), text]);
  if (state === "paused") found.unshift([words("paused_now"), ""]);
  if (failures) found.push([words("refit_failed", { n: failures }), shownSince(last)]);
  if (unmeasured !== null) found.push([words("measuring_failed", { type: unmeasured }), shownSince(last)]);
  const before = last?.curve.find((point) => point.strength === 0)?.selected;
  const after = last?.curve.find((point) => point.strength === strength)?.selected;
  if (before && after !== undefined && after < 0.2 * before) {
    found.push([words("caution_nobody_title", { positive: labels[1] }), words("caution_nobody", { before: percent(before), after: percent(after) })]);
  }
  return found;
}

function freshness({ refitting, behind }, last) {
  if (refitting) return [words("refitting"), shownSince(last)].join(" ");
  return behind ? [words("behind", { n: behind }), shownSince(last)].join(" ") : last ? words("fresh") : "";
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
