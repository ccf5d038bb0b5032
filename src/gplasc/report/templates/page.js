"use strict";
(function () {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let printing = false;
  // Colors that are too dark, or too bright, for a dark page.
  const atNight = {
    "#0072b2": "#4aa8e0", "#000000": "#e4e8ec", "#c8102e": "#ff7a85", "#7f7f7f": "#a9b0b7", "#eef1f4": "#2a3036",
  };
  const night = () => dark.matches && !printing;

  function recolor(value) {
    if (typeof value === "string") return atNight[value.toLowerCase()] || value;
    if (Array.isArray(value)) return value.map(recolor);
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, entry]) => [name, recolor(entry)]));
    }
    return value;
  }

  function themed(entry) {
    const figure = JSON.parse(entry.source.textContent);
    const result = night() ? recolor(figure) : figure;
    const ink = night() ? "#e4e8ec" : "#22262b";
    const rule = night() ? "#333a41" : "#e3e6ea";
    const layout = result.layout;
    layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.font = { family: "system-ui, sans-serif", size: 12.5, color: ink };
    layout.autosize = true;
    layout.hoverlabel = { bgcolor: night() ? "#262c32" : "#ffffff", bordercolor: rule, font: { color: ink }, namelength: -1 };
    if (!layout.scene) {
      layout.dragmode = false; // a finger that scrolls must not zoom
      layout.margin = { l: 44, r: 12, t: 14, b: 36 };
      for (const name of ["xaxis", "yaxis"]) {
        const axis = Object.assign({ gridcolor: rule, zerolinecolor: rule, linecolor: ink, fixedrange: true, ticks: "outside", ticklen: 4, tickcolor: "rgba(0,0,0,0)" }, layout[name]);
        if (axis.title) axis.title = Object.assign({ font: { size: 12.5 }, standoff: 8 }, axis.title);
        layout[name] = axis;
      }
      // On a narrow screen names of rows would leave no room for the numbers.
      if (entry.box.clientWidth < 480 && (entry.kind === "interval" || entry.kind === "stack")) {
        layout.yaxis.tickfont = { size: 11 };
        let lines = 1;
        for (const trace of result.data) {
          trace.y = trace.y.map(function (name) {
            const broken = name.length > 12 ? name.replace(/(, |\+)/g, "$1<br>") : name;
            lines = Math.max(lines, broken.split("<br>").length);
            return broken;
          });
        }
        layout.height += (lines - 2) * 15 * new Set(result.data.flatMap((trace) => trace.y)).size;
      }
    }
    for (const trace of result.data) if (trace.name && entry.hidden.has(trace.name)) trace.visible = false;
    return result;
  }

  const config = { displaylogo: false, responsive: true, displayModeBar: "hover", modeBarButtons: [["toImage"]] };
  const entries = Array.from(document.querySelectorAll("figure"), function (figure) {
    const box = figure.querySelector(".plot");
    const source = figure.querySelector('script[type="application/json"]');
    return box && source ? { figure, box, source, kind: figure.dataset.kind, drawn: false, hidden: new Set() } : null;
  }).filter(Boolean);

  async function draw(entry) {
    entry.drawn = true;
    const { data, layout, frames } = themed(entry);
    try {
      await Plotly.react(entry.box, { data, layout, config, frames: frames || [] });
      entry.box.dataset.drawn = "true";
    } catch (error) {
      entry.box.textContent = "This figure could not be drawn: " + error.message;
    }
  }

  // The legend is part of the page, so that it wraps, can be reached with the keyboard and serves several figures.
  const shapes = {
    circle: "M0-4A4 4 0 1 0 0 4A4 4 0 1 0 0-4Z", square: "M-3.5-3.5H3.5V3.5H-3.5Z", "triangle-up": "M0-4.4L4.2 3.4H-4.2Z",
    diamond: "M0-5L5 0L0 5L-5 0Z", "triangle-down": "M0 4.4L4.2-3.4H-4.2Z", cross: "M-1.5-4.5H1.5V-1.5H4.5V1.5H1.5V4.5H-1.5V1.5H-4.5V-1.5H-1.5Z",
    x: "M-4-2L-2-4L0-2L2-4L4-2L2 0L4 2L2 4L0 2L-2 4L-4 2L-2 0Z", star: "M0-5L1.4-1.6L5-1.5L2.2.8L3.1 4.4L0 2.4L-3.1 4.4L-2.2.8L-5-1.5L-1.4-1.6Z",
  };

  function element(name, attributes) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  function swatch(trace) {
    const shown = night() ? recolor(trace) : trace;
    const svg = element("svg", { width: 30, height: 14, viewBox: "-15 -7 30 14", "aria-hidden": "true" });
    const color = shown.marker.color;
    if (trace.type === "bar") {
      svg.append(element("rect", { x: -6, y: -6, width: 12, height: 12, rx: 2, fill: trace.marker.pattern ? "none" : color, stroke: color }));
      return svg;
    }
    const open = trace.marker.symbol.endsWith("-open");
    if (trace.mode !== "markers") {
      svg.append(element("path", { d: "M-14 0H14", stroke: color, "stroke-width": 2, "stroke-dasharray": trace.line.dash === "dash" ? "5 3" : "none" }));
    }
    const shape = shapes[trace.marker.symbol.replace("-open", "")];
    svg.append(element("path", { d: shape, fill: open ? "var(--card)" : color, stroke: color, "stroke-width": 1.5 }));
    return svg;
  }

  function legend(members) {
    const traces = new Map();
    for (const member of members) for (const trace of member.traces) traces.set(trace.name, trace);
    if (traces.size < 2) return null;
    const list = document.createElement("ul");
    list.className = traces.size <= 8 ? "legend few" : "legend";
    list.setAttribute("aria-label", "Legend; press an entry to hide it");
    for (const [name, trace] of traces) {
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      // Names are escaped for plotly; as the text of a node they must not be.
      button.append(swatch(trace), name.replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&"));
      button.addEventListener("click", function () {
        const show = button.getAttribute("aria-pressed") === "false";
        button.setAttribute("aria-pressed", String(show));
        for (const member of members) {
          if (show) member.hidden.delete(name); else member.hidden.add(name);
          if (member.drawn) draw(member);
        }
      });
      const item = document.createElement("li");
      item.append(button);
      list.append(item);
    }
    return list;
  }

  function look(trace) { return [trace.marker.color, trace.marker.symbol, trace.line && trace.line.dash].join(); }

  function addLegends() {
    document.querySelectorAll(".legend").forEach((old) => old.remove());
    for (const entry of entries) {
      if (entry.kind && !entry.traces) entry.traces = JSON.parse(entry.source.textContent).data;
      entry.hidden.clear();
    }
    for (const grid of document.querySelectorAll(".grid")) {
      const inside = entries.filter((entry) => entry.kind && entry.figure.parentElement === grid);
      const lines = inside.filter((entry) => entry.kind === "line");
      const names = new Map();
      const clash = lines.some((entry) => entry.traces.some(function (trace) {
        const seen = names.get(look(trace));
        names.set(look(trace), trace.name);
        return seen !== undefined && seen !== trace.name;
      }));
      const shared = lines.length > 1 && !clash;
      if (shared) {
        const list = legend(lines);
        if (list) grid.prepend(list);
      }
      for (const entry of inside) {
        const list = shared && entry.kind === "line" ? null : legend([entry]);
        if (list) entry.box.before(list);
      }
    }
  }
  addLegends();

  const observer = new IntersectionObserver(function (changes) {
    for (const change of changes) {
      const entry = entries.find((candidate) => candidate.box === change.target);
      if (change.isIntersecting && !entry.drawn) { observer.unobserve(entry.box); draw(entry); }
    }
  }, { rootMargin: "600px" });
  entries.forEach((entry) => observer.observe(entry.box));

  function redraw() { addLegends(); return Promise.all(entries.filter((entry) => entry.drawn).map(draw)); }
  dark.addEventListener("change", redraw);
  addEventListener("beforeprint", function () {
    printing = true;
    document.querySelectorAll("details:not(.numbers)").forEach((details) => { details.open = true; });
    addLegends();
    entries.forEach(draw);
  });
  addEventListener("afterprint", function () { printing = false; redraw(); });
  // A link into a folded part opens it.
  addEventListener("hashchange", function () {
    const target = document.getElementById(location.hash.slice(1));
    const folded = target && target.closest("details");
    if (folded) folded.open = true;
  });
})();
