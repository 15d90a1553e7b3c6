// What the page says besides its own measurements: the legends, and what identification found.
"use strict";
(function (algoformer) {
  const {byId, html, svg, plot, line} = algoformer;
  const SPARE = ["difference", "least"];

  // One colour for one method, wherever it is drawn.
  function hue(label, index) {
    if (index === 0) return "model";
    const name = label.toLowerCase();
    return name.includes("newton") ? "newton" : name.includes("gradient") ? "descent" : SPARE[index % SPARE.length];
  }

  let filters = null, pass = 1;

  // The verdict of `algoformer identify`, and the filters r(λ) of the model and of candidates at a pass.
  function showVerdict(found) {
    if (!found) return;
    byId("verdict-text").textContent = found.verdict;
    filters = found.filters;
    byId("filters-box").hidden = !filters;
    if (!filters) return;
    byId("filters-legend").replaceChildren(...Object.keys(filters.series).map((label, index) =>
      html("li", {}, html("i", {class: `swatch ${hue(label, index)}`, "aria-hidden": "true"}), label)));
    new ResizeObserver(() => algoformer.showFilters(pass)).observe(byId("filters"));
  }

  algoformer.showFilters = (iteration) => {
    pass = iteration;
    if (!filters) return;
    const {eigenvalues, series} = filters, names = Object.keys(series);
    const curves = Object.values(series).map((passes) => passes[Math.min(pass, passes.length) - 1]);
    const low = Math.min(-0.1, ...curves.flat()), high = Math.max(1.1, ...curves.flat());
    const space = plot(byId("filters"), {low: Math.min(...eigenvalues), high: Math.max(...eigenvalues)}, {low: Math.max(low, -2), high: Math.min(high, 2)},
      {x: "eigenvalue λ of the examples", y: `share of the weights still missing after pass ${pass}`});
    space.canvas.append(...curves.map((curve, index) =>
      svg("path", {class: `curve ${hue(names[index], index)}`, d: line(eigenvalues.map((x, k) => [x, curve[k]]), space)})));
  };

  algoformer.describePage = (pack) => {
    const legend = pack.textbook ? ["model", "textbook", "least"] : pack.pairs ? ["model", "descent", "newton", "least"] : ["model"];
    const words = {model: "the model", descent: "gradient descent", newton: "Newton's method", least: "least squares", textbook: "the textbook method"};
    const items = (names) => names.map((name) =>
      html("li", {}, html("i", {class: `swatch ${name}`, "aria-hidden": "true"}), words[name] ?? "difference between model and textbook"));
    byId("fit-legend").replaceChildren(...items(legend));
    const lines = legend.filter((name) => name !== "least");
    byId("errors-legend").replaceChildren(...items(pack.textbook ? [...lines, "difference"] : lines));
    showVerdict(pack.identification);
  };
})((self.algoformer = self.algoformer || {}));
