// What the page says besides its own measurements: facts about the model, and what identification found.
"use strict";
(function (algoformer) {
  const {html, svg, plot, line} = algoformer;
  const byId = (id) => document.getElementById(id);
  const HUES = ["model", "newton", "descent", "textbook", "least", "difference"];

  // The verdict of `algoformer identify`, and its filters r(λ) where the file holds some.
  function showVerdict(found) {
    if (!found) return;
    byId("verdict-text").textContent = found.verdict ?? "";
    const filters = found.filters ?? [];
    byId("filters-box").hidden = !filters.length;
    if (filters.length) new ResizeObserver(() => drawFilters(filters)).observe(byId("filters"));
  }

  function drawFilters(filters) {
    const all = (name) => filters.flatMap((filter) => filter[name]);
    const low = Math.min(...all("lambda")), high = Math.max(...all("lambda"));
    const space = plot(byId("filters"), {low, high}, {low: Math.min(-0.1, ...all("r")), high: Math.max(1.1, ...all("r"))},
      {x: "eigenvalue λ of the examples", y: "share of the weight that is still missing"});
    space.canvas.append(...filters.map(({lambda, r}, index) =>
      svg("path", {class: `curve ${HUES[index % HUES.length]}`, d: line(lambda.map((x, k) => [x, r[k]]), space)})));
    byId("filters-legend").replaceChildren(...filters.map(({label}, index) =>
      html("li", {}, html("i", {class: `swatch ${HUES[index % HUES.length]}`, "aria-hidden": "true"}), label)));
  }

  algoformer.describePage = (pack) => {
    byId("facts").replaceChildren(...pack.facts.flatMap(([name, value]) => [html("dt", {}, name), html("dd", {}, value)]));
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
