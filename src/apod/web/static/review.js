// The reviewer's page: opinions that disagree or say nothing, without names, one case at a time.
import { get, post } from "./api.js";
import { renderCase } from "./case.js";
import { answerText } from "./buttons.js";
import { Choices, place } from "./choices.js";
import { byId, el, fill, show, write } from "./dom.js";
import { decimal, translate, words } from "./words.js";

class Review {
  constructor(campaign, me) {
    this.groups = campaign.groups;
    this.several = campaign.attributes.length > 1;
    document.title = words("review_title", { campaign: campaign.name });
    write(byId("campaign"), campaign.name);
    write(byId("who"), words("signed_in", { name: me.name }));
  }

  draw({ case: found, waiting, decided, agreement_before: before, agreement_after: after }) {
    const agreement = before === null || after === null ? "" : ` ${words("review_agreement", { before: decimal(before), after: decimal(after) })}`;
    write(byId("counts"), words("review_counts", { waiting, decided }) + agreement);
    show(byId("pad"), found !== null);
    byId("heading").parentElement.classList.toggle("message", found === null);
    write(byId("heading"), found ? words("case", { id: found.row_id }) : words("review_none_title"));
    write(byId("why"), found ? words(`review_${found.why}`) : words(waiting ? "review_none_yours" : "review_none"));
    fill(byId("case"), found ? renderCase({ ...found, id: String(found.question) }) : null, found ? this.opinions(found) : null);
    if (found && this.several) this.attributes(found);
    else if (found) fill(byId("groups"), [...this.groups, "cannot_tell", "declined"].map((answer) => this.choice(found, answer)));
    byId("heading").focus({ preventScroll: true });
  }

  /** Each attribute that needs a second look; the others stay as they were answered. */
  attributes({ question, attributes }) {
    const complete = (answer) => this.decide(question, answer);
    place(byId("groups"), new Choices(attributes, { complete, keys: false, confirm: words("review_save") }));
  }

  opinions({ opinions, attributes }) {
    if (this.several) {
      return [el("h2", { text: words("review_opinions") }), attributes.map(({ name, why, opinions: own }) => [
        el("h3", { text: name }),
        el("p", { class: "note", text: words(`review_${why}`) }),
        el("ul", {}, own.map(({ answer, count }) => el("li", { text: words("review_opinion", { answer: answerText(answer), n: count }) }))),
      ])].flat(3);
    }
    return [el("h2", { text: words("review_opinions") }), el("ul", {}, opinions.map(({ answer, count }) => el("li", { text: words("review_opinion", { answer: answerText(answer), n: count }) })))];
  }

  choice({ question }, answer) {
    return el("button", { type: "button", text: answerText(answer), on: { click: () => this.decide(question, answer) } });
  }

  async decide(question, answer) {
    try {
      this.draw(await post(`/review/${question}`, { answer, key: `${question}.${crypto.randomUUID()}` }));
    } catch (error) {
      this.toast(error.message || words("server_away"));
    }
  }

  toast(text) {
    write(byId("toast"), text);
    show(byId("toast"), true);
    setTimeout(() => show(byId("toast"), false), 3200);
  }
}

translate();
try {
  const [me, campaign] = await Promise.all([get("/me"), get("/campaign")]);
  new Review(campaign, me).draw(await get("/review"));
} catch (error) {
  if (error.status === undefined) throw error;
  byId("heading").parentElement.classList.add("message");
  write(byId("heading"), words(error.status === 401 ? "signed_out_title" : "failed_title"));
  write(byId("why"), error.status === 401 ? words("signed_out") : error.message || words("server_away"));
}
