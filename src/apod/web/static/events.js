// News from the server, one stream per visible tab: browsers allow only a few connections to one host.

/** Listen while the page is visible. `handlers` maps an event's name to a function of its data; `connected` hears how it goes. */
export function listen(handlers, connected = () => {}) {
  let source = null;
  const open = () => {
    if (source !== null || document.visibilityState !== "visible") return;
    source = new EventSource("/api/v1/events");
    for (const [name, handler] of Object.entries(handlers)) {
      source.addEventListener(name, (event) => handler(JSON.parse(event.data)));
    }
    source.addEventListener("open", () => connected(true));
    source.addEventListener("error", () => {
      connected(false);
      if (source?.readyState === EventSource.CLOSED) {
        source = null; // refused rather than interrupted: the browser gives up, we look again
        setTimeout(open, 5000);
      }
    });
  };
  const close = () => {
    source?.close();
    source = null;
  };
  document.addEventListener("visibilitychange", () => (document.visibilityState === "visible" ? open() : close()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  open();
}
