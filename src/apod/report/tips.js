// What a mark says appears beside the pointer as soon as it is near; without scripts the browser's own tooltip does it.
(() => {
  const tip = document.getElementById("tip");
  const near = 22;
  let pointed = null;
  const marks = new Map();
  for (const chart of document.querySelectorAll("svg.chart")) {
    const own = [];
    for (const title of chart.querySelectorAll("title")) {
      own.push({ mark: title.parentNode, text: title.textContent });
      title.remove();
    }
    marks.set(chart, own);
  }
  const hide = () => {
    tip.style.display = "none";
    if (pointed) pointed.classList.remove("pointed");
    pointed = null;
  };
  const show = (event, chart) => {
    let best = null;
    let distance = near;
    for (const one of marks.get(chart)) {
      const box = one.mark.getBoundingClientRect();
      const dx = Math.max(box.left - event.clientX, 0, event.clientX - box.right);
      const dy = Math.max(box.top - event.clientY, 0, event.clientY - box.bottom);
      const away = Math.hypot(dx, dy);
      if (away < distance) [best, distance] = [one, away];
    }
    if (!best) return hide();
    if (pointed !== best.mark) {
      hide();
      pointed = best.mark;
      pointed.classList.add("pointed");
      tip.textContent = best.text;
    }
    tip.style.display = "block";
    const left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
    const below = event.clientY + 18;
    const top = below + tip.offsetHeight > window.innerHeight ? event.clientY - tip.offsetHeight - 12 : below;
    tip.style.left = Math.max(8, left) + "px";
    tip.style.top = top + "px";
  };
  for (const chart of marks.keys()) {
    chart.addEventListener("pointermove", (event) => show(event, chart));
    chart.addEventListener("pointerdown", (event) => show(event, chart));
    chart.addEventListener("pointerleave", hide);
  }
  const wide = () => {
    for (const box of document.querySelectorAll(".scroll")) box.classList.toggle("wide", box.scrollWidth > box.clientWidth + 1);
  };
  wide();
  window.addEventListener("resize", wide);
  window.addEventListener("scroll", hide, { passive: true });
  window.addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details")) details.open = true;
  });
})();
