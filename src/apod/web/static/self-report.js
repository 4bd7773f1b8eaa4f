// The page of the person concerned: purpose and legal basis, their answer or refusal, and a code to take it back.
import { post } from "./api.js";
import { answerText } from "./buttons.js";
import { Choices, place } from "./choices.js";
import { byId, el, fill, show, write } from "./dom.js";
import { markdown } from "./markdown.js";
import { translate, words } from "./words.js";

const token = location.hash.slice(1);

function say(title, ...nodes) {
  write(byId("heading"), words(title));
  fill(byId("text"), nodes.flat());
  fill(byId("groups"));
  byId("heading").focus({ preventScroll: true });
}

function failed(error) {
  say("report_failed", el("p", { text: error.status === 401 ? error.message : error.message || words("server_away") }));
}

async function report(answer) {
  try {
    const { receipt } = await post("/self-report", { token, answer });
    history.replaceState(null, "", location.pathname);
    say("report_thanks", el("p", { text: words("report_receipt") }), el("p", {}, el("strong", { id: "receipt", text: receipt })));
  } catch (error) {
    failed(error);
  }
}

async function begin() {
  if (!token) {
    say("report_nothing", el("p", { text: words("report_nothing_text") }));
    byId("withdrawal").open = true;
    return;
  }
  try {
    const { campaign, groups, attributes, question, purpose, legal_basis: basis } = await post("/self-report/form", { token });
    document.title = campaign;
    say("report_title", purpose ? markdown(purpose) : null, basis ? el("p", { class: "note", text: words("legal_basis", { basis }) }) : null, el("p", { text: words("report_free") }), el("h2", { text: question ?? words(attributes.length > 1 ? "report_question_several" : "report_question") }));
    if (attributes.length > 1) {
      place(byId("groups"), new Choices(attributes, { complete: report, keys: false, none: "declined", noneText: words("report_refuse"), confirm: words("report_send") }));
      return;
    }
    fill(byId("groups"), [...groups, "declined"].map((answer) => el("button", { type: "button", text: answer === "declined" ? words("report_refuse") : answerText(answer), on: { click: () => report(answer) } })));
  } catch (error) {
    failed(error);
  }
}

translate();
document.title = words("app");
show(byId("withdrawal"), true);
byId("withdraw").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    await post("/self-report/withdrawal", { receipt: byId("code").value });
    write(byId("withdrawn"), words("withdraw_done"));
  } catch (error) {
    write(byId("withdrawn"), error.message || words("server_away"));
  }
});
await begin();
