"use strict";
// Pressing an entry of a legend hides its series in the figures that the legend serves.
document.querySelectorAll(".legend button").forEach((button) => button.addEventListener("click", function () {
  const show = button.getAttribute("aria-pressed") === "false";
  button.setAttribute("aria-pressed", String(show));
  button.closest("figure, .grid").querySelectorAll("[data-series]").forEach(function (series) {
    if (series.dataset.series === button.dataset.for) series.style.display = show ? "" : "none";
  });
}));
// A link into a folded part opens it; paper shows all parts.
addEventListener("hashchange", function () {
  const target = document.getElementById(location.hash.slice(1));
  const folded = target && target.closest("details");
  if (folded) folded.open = true;
});
addEventListener("beforeprint", function () {
  document.querySelectorAll("details:not(.numbers)").forEach((details) => { details.open = true; });
});
