// Inside the model: the program as a diagram, attention maps of a chosen part, and the path of its state.
"use strict";
(function (algoformer) {
  const {html, svg, plot, heat, color, show} = algoformer;

  const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
  const INJECTED = {
    add: "input added", none: "input as first state", gate: "input through gates",
    concat: "input joined", decay: "input with decay",
  };

  function describe(part) {
    if (part.part === "twostates") return `⟲ ${plural(part.steps, "iteration")}, a slow and a fast state, ${INJECTED[part.inject ?? "add"]}`;
    if (part.part === "loop") return `⟲ ${plural(part.steps, "iteration")}, ${INJECTED[part.inject ?? "add"]}`;
    if (part.part === "parallel") return `∥ ${plural(part.branches.length, "branch").replace("branchs", "branches")}, summed`;
    if (!part.count) return part.positions && part.positions !== "none" ? "positions added" : "norm";
    return `${plural(part.count, "layer")} × ${plural(part.heads, "head")}${part.causal === false ? ", full attention" : ""}`;
  }

  const title = (part, path) => part.name || {layers: "layers", loop: "loop", twostates: "two states", parallel: "branches"}[part.part];

  // The program as nested buttons; `choose` is called with a part and its path.
  function diagram(program, choose) {
    const buttons = new Map();
    const draw = (parts, path) => html("div", {class: "parts"}, ...parts.map((part, index) => {
      const own = path ? `${path}.${index}` : `${index}`;
      const button = html("button", {type: "button", class: "part", "aria-pressed": "false", "data-path": own},
        html("b", {}, title(part, own)), html("span", {}, describe(part)));
      button.addEventListener("click", () => choose(part, own));
      buttons.set(own, {button, part});
      const box = html("div", {class: `box ${part.part === "twostates" ? "loop" : part.part}`}, button);
      if (part.body) box.append(draw(part.body, `${own}.body`));
      if (part.branches) {
        box.append(html("div", {class: "branches"}, ...part.branches.map((branch, number) => draw(branch, `${own}.branch${number}`))));
      }
      return box;
    }));
    return {element: draw(program, ""), buttons};
  }

  // The layers inside a part, as [path of the module, number of the layer, label].
  function layersIn(part, path) {
    if (part.part === "layers") {
      const name = part.name ? `${part.name}, ` : "";
      return Array.from({length: part.count}, (_, index) => [path, index, `${name}layer ${index + 1}`]);
    }
    if (part.body) return part.body.flatMap((inner, index) => layersIn(inner, `${path}.body.${index}`));
    return part.branches.flatMap((branch, number) =>
      branch.flatMap((inner, index) => layersIn(inner, `${path}.branch${number}.${index}`).map(([where, layer, label]) =>
        [where, layer, `branch ${number + 1}, ${label}`])));
  }

  class Inside {
    // `subject` is what the followed token is called, and `tokenName(token, message)` names any token.
    constructor(elements, {program, tokenName, subject, logarithmic}) {
      Object.assign(this, {...elements, subject, logarithmic, paths: [], message: null});
      this.tokenName = (token) => tokenName(token, this.message);
      const {element, buttons} = diagram(program, (part, path) => this.choose(part, path));
      this.buttons = buttons;
      this.diagram.append(element);
      this.layer.addEventListener("change", () => this.draw());
      new ResizeObserver(() => this.drawPath()).observe(this.path);
      const looping = program.findIndex((part) => part.part !== "layers");
      const first = Math.max(0, looping);
      this.choose(program[first], `${first}`);
    }

    choose(part, path) {
      Object.assign(this, {part, chosen: path});
      for (const [own, {button}] of this.buttons) button.setAttribute("aria-pressed", String(own === path));
      this.layers = layersIn(part, path);
      this.layer.replaceChildren(...this.layers.map(([, , label], index) => html("option", {value: index}, label)));
      this.layer.disabled = this.layers.length < 2;
      this.draw();
    }

    // New states of the question, one map of paths for each iteration.
    follow(paths, iteration) {
      Object.assign(this, {paths, iteration});
      this.drawPath();
    }

    look(message) {
      this.message = message;
      this.drawMaps();
    }

    draw() {
      this.drawMaps();
      this.drawPath();
    }

    drawMaps() {
      const chosen = this.layers[Number(this.layer.value) || 0];
      const heads = chosen && this.message?.maps.get(`${chosen[0]}/${chosen[1]}`);
      if (!heads) {
        const why = this.layers.length ? "" : "This part has no attention.";
        this.maps.replaceChildren(html("p", {class: "quiet"}, why));
        return;
      }
      const {tokens, step} = this.message, ink = color("--model"), paper = color("--card");
      this.maps.replaceChildren(...heads.map((values, head) => {
        const canvas = html("canvas", {role: "img", "aria-label": this.describeHead(values, head)});
        heat(canvas, values, tokens, ink, paper, this.logarithmic);
        const caption = html("figcaption", {}, `head ${head + 1}`);
        const figure = html("figure", {class: "head"}, canvas, caption);
        canvas.addEventListener("pointermove", (event) => {
          const box = canvas.getBoundingClientRect();
          const at = (value, start, length) => Math.max(0, Math.min(tokens - 1, Math.floor(((value - start) / length) * tokens)));
          const key = at(event.clientX, box.left, box.width), query = at(event.clientY, box.top, box.height);
          caption.textContent = `${this.tokenName(query)} reads ${this.tokenName(key)}: ${show(values[query * tokens + key])}`;
        });
        canvas.addEventListener("pointerleave", () => { caption.textContent = `head ${head + 1}`; });
        return figure;
      }));
      this.mapsTitle.textContent = `Attention at iteration ${step}: row by row, which tokens each token reads${this.logarithmic ? " (logarithmic shades)" : ""}`;
    }

    describeHead(values, head) {
      const {tokens, focus} = this.message;
      const row = Array.from(values.subarray(focus * tokens, (focus + 1) * tokens), (weight, key) => ({weight, key}));
      const best = row.sort((a, b) => b.weight - a.weight).slice(0, 3);
      return `Attention of head ${head + 1}. ${this.subject} reads ` +
        best.map(({weight, key}) => `${this.tokenName(key)} with weight ${show(weight)}`).join(", ");
    }

    drawPath() {
      const [module, index] = this.part?.part === "layers" && this.layers.length
        ? this.layers[Number(this.layer.value) || 0] : [this.chosen, "end"];
      const key = `${module}/${index}`;
      const states = this.paths.map((path) => path.get(key)).filter(Boolean);
      if (states.length < 2 || states.some((state) => !state.every(Number.isFinite))) {
        this.path.replaceChildren();
        this.pathTitle.textContent = states.length > 1 ? "The state has left the range of numbers."
          : this.paths.length > 1 ? "This part runs once, before the loop: its state has no path." : `${this.subject}'s state`;
        return;
      }
      const {points, shares} = algoformer.principal(states);
      const size = Math.max(1e-12, ...points.map(([first]) => Math.abs(first)));
      const range = (axis) => {
        const values = points.map((point) => point[axis]), low = Math.min(...values), high = Math.max(...values);
        // a path along a line keeps its second axis at a size that can be read
        const room = Math.max(0.08 * (high - low), axis ? 0.02 * size : 0.08 * size);
        return {low: low - room, high: high + room};
      };
      const percent = (share) => `${(100 * share).toFixed(0)} %`;
      const space = plot(this.path, range(0), range(1), {
        x: `first principal direction (${percent(shares[0])} of variance)`, y: `second (${percent(shares[1])})`,
      });
      const at = Math.min(this.iteration, states.length) - 1;
      space.canvas.append(
        svg("path", {class: "track", d: algoformer.line(points, space)}),
        ...points.slice(0, 400).map(([x, y]) => svg("circle", {class: "stop", r: 2.5, cx: space.toX(x), cy: space.toY(y)})),
        svg("circle", {class: "answer", r: 6, cx: space.toX(points[at][0]), cy: space.toY(points[at][1])}),
      );
      this.pathTitle.textContent = `${this.subject}'s state over ${states.length} iterations, in two principal directions`;
    }
  }

  Object.assign(algoformer, {Inside});
})((self.algoformer = self.algoformer || {}));
