"use strict";
// Spheres to turn: orthographic projection on a canvas, what lies behind is drawn first and fainter.
(function () {
  const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
  const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
  const scaled = (a, s) => a.map((value) => value * s);
  const unit = (a) => scaled(a, 1 / Math.hypot(...a));
  const sum = (a, b) => a.map((value, i) => value + b[i]);
  const steps = (from, to, count) => Array.from({ length: count + 1 }, (_, i) => from + (to - from) * i / count);

  function ring(axis, angle, from = 0, to = 2 * Math.PI) {
    const first = unit(cross(axis, Math.abs(axis[0]) < 0.6 ? [1, 0, 0] : [0, 1, 0])), second = cross(axis, first);
    return steps(from, to, 90).map((t) => sum(scaled(axis, Math.cos(angle)),
      scaled(sum(scaled(first, Math.cos(t)), scaled(second, Math.sin(t))), Math.sin(angle))));
  }

  // Outline of the part of a cap on one side; axis in camera coordinates. See cap_outline in sphere.py.
  function outline(axis, angle, side) {
    const flat = Math.hypot(axis[0], axis[1]), depth = side * axis[2], cosine = Math.cos(angle);
    if (flat <= cosine) return depth > 0 ? ring(axis, angle) : [];
    const out = [axis[0] / flat, axis[1] / flat], across = [-out[1], out[0]];
    const at = (u, v) => [u * out[0] + v * across[0], u * out[1] + v * across[1]];
    const reach = Math.acos(cosine / flat);
    const limit = Math.acos(Math.max(-1, Math.min(1, -depth * cosine / (Math.sin(angle) * flat))));
    return steps(-reach, reach, 60).map((t) => at(Math.cos(t), Math.sin(t))).concat(steps(limit, -limit, 60).map(
      (t) => at(cosine * flat - Math.sin(angle) * Math.cos(t) * depth, Math.sin(angle) * Math.sin(t))));
  }

  function start(box) {
    const data = JSON.parse(box.querySelector("script").textContent);
    const canvas = box.querySelector("canvas"), pen = canvas.getContext("2d");
    const slider = box.querySelector("input"), play = box.querySelector(".play");
    const points = (flat) => Array.from({ length: flat.length / 3 }, (_, i) => [0, 1, 2].map((k) => flat[3 * i + k] / 1000));
    const legend = box.querySelector(".legend") || box.parentElement.querySelector(":scope > .legend");
    const hidden = () => new Set(Array.from(legend ? legend.querySelectorAll("[aria-pressed=false]") : [], (button) => button.dataset.for));
    const tasks = data.tasks.map((task) => ({ ...task, history: task.history.map(points) }));
    const moments = tasks.flatMap((task, index) => task.history.map((_, row) => [index, row]));
    const pole = unit(data.pole), toward = unit(data.view);
    const up = unit(sum(data.pole, scaled(toward, -dot(data.pole, toward))));
    let frame = [cross(up, toward), up, toward], size = 0, timer = 0;
    const seen = (p) => frame.map((row) => dot(row, p));
    const grid = [-60, -30, 0, 30, 60].map((d) => ring(pole, (90 - d) * Math.PI / 180));
    const east = ring(pole, Math.PI / 2);
    for (let i = 0; i < 6; i++) grid.push(ring(east[i * 15 / 2 | 0], Math.PI / 2));

    function draw() {
      const css = getComputedStyle(canvas), color = (name) => name.startsWith("#") ? name : css.getPropertyValue(name.replace(/^var\(|\)$/g, ""));
      const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth || 340;
      canvas.width = canvas.height = width * ratio;
      size = 0.455 * width;
      pen.setTransform(ratio * size, 0, 0, -ratio * size, canvas.width / 2, canvas.height / 2);
      pen.lineJoin = "round";
      const trace = (list) => { pen.beginPath(); list.forEach((p) => pen.lineTo(p[0], p[1])); };
      const ink = (name, alpha, width) => { pen.strokeStyle = pen.fillStyle = color(name); pen.globalAlpha = alpha; pen.lineWidth = width / size; };
      function line(list, side, name, alpha, width) {
        ink(name, alpha, width);
        pen.beginPath();
        list.map(seen).forEach((p, i, all) => { if (side * p[2] >= 0 && i && side * all[i - 1][2] >= 0) pen.lineTo(p[0], p[1]); else pen.moveTo(p[0], p[1]); });
        pen.stroke();
      }
      function label(text, p, side, inside) { // at its place, or, for a single point, next to it, outward
        if (side * p[2] < 0) return;
        pen.save(); pen.scale(1 / size, -1 / size);
        pen.font = `600 ${inside ? 15 : 13}px system-ui, sans-serif`; pen.textAlign = "center"; pen.textBaseline = "middle";
        const far = Math.hypot(p[0], p[1]), way = inside ? [0, 0] : far > 0.01 ? [p[0] / far, p[1] / far] : [0, 1];
        const x = p[0] * size + 13 * way[0], y = -p[1] * size - 13 * way[1];
        ink("--card", side > 0 ? 0.9 : 0.4, 1); pen.lineWidth = inside ? 4 : 3; pen.strokeText(text, x, y);
        ink("--ink", side > 0 ? 1 : 0.5, 1); pen.fillText(text, x, y);
        pen.restore();
      }
      const left = hidden(), shown = tasks.filter((task) => !left.has(task.name));
      const [current, row] = moments[slider ? +slider.value : moments.length - 1];
      for (const side of [-1, 1]) {
        const front = side > 0;
        if (front) { ink("--card", 0.45, 1); pen.beginPath(); pen.arc(0, 0, 1, 0, 7); pen.fill(); }
        for (const arc of grid) line(arc, side, "--soft", front ? 0.35 : 0.15, 0.6);
        for (const task of shown) {
          const index = tasks.indexOf(task);
          if (task.cap) {
            trace(outline(seen(task.cap.slice(0, 3)), task.cap[3], side));
            ink(task.color, front ? 0.22 : 0.1, 1); pen.fill();
            line(ring(task.cap.slice(0, 3), task.cap[3]), side, task.color, front ? 1 : 0.4, 1.5);
          }
          if (index > current) continue;
          const now = task.history[index === current ? row : task.history.length - 1];
          const classes = [];
          now.forEach((p, i) => (classes[task.labels[i]] ||= []).push(p));
          const corners = classes.map((list) => seen(scaled(list.reduce(sum), 1 / list.length)));
          if (front && corners.length > 1) { trace([...corners, corners[0], corners[1]]); ink(data.structure || task.color, 0.9, 2); pen.stroke(); }
          for (const p of now.map(seen).filter((q) => side * q[2] >= 0)) {
            const radius = (now.length > 1 ? 2.5 : 4) / size;
            pen.beginPath(); pen.arc(p[0], p[1], radius, 0, 7);
            ink(task.color, front ? 0.95 : 0.45, 1.5);
            if (front) pen.fill(); else pen.stroke();
          }
          task.marks.forEach((text, i) => label(text, corners[i], side, now.length > 1));
        }
      }
      ink("--soft", 0.8, 1); pen.beginPath(); pen.arc(0, 0, 1, 0, 7); pen.stroke();
      canvas.dataset.drawn = "true";
    }

    function turn(dx, dy) { // radians about the screen's vertical and horizontal axis
      const [right, above, near] = frame;
      const across = sum(scaled(right, Math.cos(dx)), scaled(near, Math.sin(dx))), deep = sum(scaled(near, Math.cos(dx)), scaled(right, -Math.sin(dx)));
      frame = [across, sum(scaled(above, Math.cos(dy)), scaled(deep, -Math.sin(dy))), sum(scaled(deep, Math.cos(dy)), scaled(above, Math.sin(dy)))];
      requestAnimationFrame(draw);
    }
    canvas.addEventListener("pointermove", (event) => { if (event.buttons & 1) turn(event.movementX / size, event.movementY / size); });
    canvas.addEventListener("pointerdown", (event) => canvas.setPointerCapture(event.pointerId));
    canvas.addEventListener("keydown", function (event) {
      const way = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] }[event.key];
      if (way) { event.preventDefault(); turn(...way); }
    });
    if (slider) {
      slider.addEventListener("input", draw);
      play.addEventListener("click", function () {
        clearInterval(timer);
        slider.value = 0;
        timer = setInterval(function () { slider.value = +slider.value + 1; draw(); if (slider.value === slider.max) clearInterval(timer); }, 120);
      });
    }
    if (legend) legend.addEventListener("click", () => requestAnimationFrame(draw)); // page.js has pressed the button
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    addEventListener("beforeprint", draw);
    new ResizeObserver(draw).observe(canvas);
  }
  document.querySelectorAll(".sphere").forEach(start);
})();
