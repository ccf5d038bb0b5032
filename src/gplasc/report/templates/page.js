"use strict";
(function () {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let printing = false;
  // Two of the palette's colours are too dark for a dark page.
  const lighter = { "#0072b2": "#4aa8e0", "#000000": "#e4e8ec", "#c8102e": "#ff7a85", "#7f7f7f": "#a9b0b7" };

  function recolour(value) {
    if (typeof value === "string") return lighter[value.toLowerCase()] || value;
    if (Array.isArray(value)) return value.map(recolour);
    if (value && typeof value === "object" && !ArrayBuffer.isView(value)) {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, recolour(v)]));
    }
    return value;
  }

  function themed(figure) {
    const night = dark.matches && !printing;
    const ink = night ? "#e4e8ec" : "#22262b";
    const rule = night ? "#333a41" : "#e3e6ea";
    const copy = JSON.parse(JSON.stringify(figure));
    const result = night ? recolour(copy) : copy;
    const layout = result.layout;
    layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.font = { family: "system-ui, sans-serif", size: 13, color: ink };
    layout.colorway = undefined;
    layout.autosize = true;
    layout.dragmode = layout.scene ? "orbit" : false;
    layout.hoverlabel = { bgcolor: night ? "#262c32" : "#ffffff", bordercolor: rule, font: { color: ink }, namelength: -1 };
    if (!layout.scene) {
      layout.margin = { l: 48, r: 12, t: 12, b: 40 };
      layout.legend = { orientation: "h", x: 0, xanchor: "left", y: -0.2, yanchor: "top", font: { size: 12 } };
      for (const name of ["xaxis", "yaxis"]) {
        layout[name] = Object.assign({ gridcolor: rule, zerolinecolor: rule, linecolor: ink, tickcolor: rule }, layout[name]);
      }
    }
    return result;
  }

  const config = { displaylogo: false, responsive: true, displayModeBar: "hover", modeBarButtons: [["toImage"]] };
  const figures = Array.from(document.querySelectorAll("figure"), function (figure) {
    const box = figure.querySelector(".plot");
    const source = figure.querySelector('script[type="application/json"]');
    return box && source ? { box, source, drawn: false } : null;
  }).filter(Boolean);

  async function draw(entry) {
    entry.drawn = true;
    const { data, layout, frames } = themed(JSON.parse(entry.source.textContent));
    try {
      await Plotly.react(entry.box, { data, layout, config, frames: frames || [] });
      entry.box.dataset.drawn = "true";
    } catch (error) {
      entry.box.textContent = "This figure could not be drawn: " + error.message;
    }
  }

  const observer = new IntersectionObserver(function (changes) {
    for (const change of changes) {
      const entry = figures.find((candidate) => candidate.box === change.target);
      if (change.isIntersecting && !entry.drawn) { observer.unobserve(entry.box); draw(entry); }
    }
  }, { rootMargin: "600px" });
  figures.forEach((entry) => observer.observe(entry.box));

  function redraw() { return Promise.all(figures.filter((entry) => entry.drawn).map(draw)); }
  dark.addEventListener("change", redraw);
  addEventListener("beforeprint", function () {
    printing = true;
    document.querySelectorAll("details:not(.numbers)").forEach((details) => { details.open = true; });
    figures.forEach(draw);
  });
  addEventListener("afterprint", function () { printing = false; redraw(); });
  // A link into a folded part opens it.
  addEventListener("hashchange", function () {
    const target = document.getElementById(location.hash.slice(1));
    const folded = target && target.closest("details");
    if (folded) folded.open = true;
  });
})();
