// Opening a link: the token stands in the fragment, which no server or log sees; it is taken out of the address first.
// Only a person's click uses the link up: whoever fetches or even runs the page on the way, as mail scanners do, does not.
import { get, post } from "./api.js";
import { byId, show, write } from "./dom.js";
import { translate, words } from "./words.js";

const HOME = { owner: "/dashboard", annotator: "/", reviewer: "/review" };

function explain(title, text, again) {
  write(byId("title"), words(title));
  write(byId("text"), text);
  show(byId("again"), again);
}

async function enter(token) {
  explain("enter_title", words("enter_wait"), false);
  show(byId("enter"), false);
  try {
    const { role } = token ? await post("/session", { token }) : await get("/me"); // reloaded: perhaps signed in already
    location.replace(HOME[role] ?? "/");
  } catch (error) {
    if (error.retryable) explain("enter_failed_title", words("enter_away"), true);
    else if (!token) explain("enter_failed_title", words("enter_nothing"), false);
    else explain("enter_failed_title", error.code === "unauthenticated" ? error.message : words("signed_out"), false);
  }
}

translate();
document.title = words("app");
const token = location.hash.slice(1);
history.replaceState(null, "", location.pathname);
byId("again").addEventListener("click", () => enter(token));
byId("enter").addEventListener("click", () => enter(token));
if (token) {
  explain("enter_ready_title", words("enter_ready"), false);
  show(byId("enter"), true);
  byId("enter").focus();
} else await enter(token);
