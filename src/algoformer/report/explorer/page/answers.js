// Answers that were computed in advance: the tokens of a text or the cells of a board, iteration by iteration.
"use strict";
(function (algoformer) {
  const {html, svg, plot, line} = algoformer;
  const byId = (id) => document.getElementById(id);

  class AnswersView {
    constructor({trained, inputs}) {
      Object.assign(this, {trained, inputs, iteration: trained, place: 0, timer: null});
      byId("input").replaceChildren(...inputs.map(({title}, k) => html("option", {value: k}, title)));
      byId("input").addEventListener("change", () => this.open(Number(byId("input").value)));
      byId("iteration").addEventListener("input", () => this.setIteration(Number(byId("iteration").value)));
      byId("play").addEventListener("click", () => this.play());
      new ResizeObserver(() => this.draw()).observe(byId("chances"));
      this.open(0);
    }

    open(index) {
      this.input = this.inputs[index];
      this.steps = this.input.answers.length;
      this.place = Math.min(this.place, this.input.names.length - 1);
      const {names, grid} = this.input, cells = byId("cells");
      cells.classList.toggle("board", Boolean(grid));
      cells.style.gridTemplateColumns = grid ? `repeat(${grid[1]}, minmax(0, 1fr))` : "";
      this.cells = names.map((name, place) => {
        const cell = html("button", {type: "button", class: "cell"}, html("span", {class: "name"}, name),
          html("b", {}), html("i", {class: "bar", "aria-hidden": "true"}), html("span", {class: "exit"}));
        cell.addEventListener("click", () => { this.place = place; this.show(); });
        return cell;
      });
      cells.replaceChildren(...this.cells);
      byId("iteration").max = this.steps;
      this.setIteration(Math.min(this.iteration, this.steps));
    }

    setIteration(iteration) {
      this.iteration = iteration;
      byId("iteration").value = iteration;
      byId("iteration-value").textContent = `${iteration} of ${this.steps}, trained with ${this.trained}`;
      this.show();
    }

    play() {
      if (this.timer) { clearInterval(this.timer); this.timer = null; } else {
        if (this.iteration >= this.trained) this.setIteration(1);
        this.timer = setInterval(() => (this.iteration >= this.steps ? this.play() : this.setIteration(this.iteration + 1)), 500);
      }
      byId("play").textContent = this.timer ? "Pause" : "Play";
      byId("play").setAttribute("aria-pressed", String(Boolean(this.timer)));
    }

    show() {
      const {answers, probabilities, exits, names, targets} = this.input, at = this.iteration - 1;
      this.cells.forEach((cell, place) => {
        const answer = answers[at][place], chance = probabilities[at][place], settled = exits[place] <= this.iteration;
        cell.querySelector("b").textContent = answer;
        cell.querySelector(".bar").style.setProperty("--share", chance);
        cell.querySelector(".exit").textContent = settled ? `${exits[place]}` : "…";
        cell.classList.toggle("settled", settled);
        cell.classList.toggle("wrong", Boolean(targets.length) && answer !== targets[place]);
        cell.setAttribute("aria-pressed", String(place === this.place));
        cell.setAttribute("aria-label", `${names[place]}: ${answer}, probability ${chance.toFixed(2)}, ${settled ? `settled since iteration ${exits[place]}` : "still changes"}`);
      });
      const done = exits.filter((exit) => exit <= this.iteration).length;
      const right = targets.length ? ` ${targets.filter((target, place) => target === answers[at][place]).length} of ${targets.length} are right.` : "";
      byId("now").textContent = `After ${this.iteration} iteration${this.iteration === 1 ? "" : "s"} ${done} of ${exits.length} answers have settled.${right}`;
      this.draw();
    }

    // The chosen position: its answers and their probabilities after every iteration.
    draw() {
      const {answers, probabilities, names} = this.input, {place, steps} = this;
      byId("chosen").textContent = `Position ${place + 1}: ${names[place]}`;
      const space = plot(byId("chances"), {low: 1, high: Math.max(2, steps)}, {low: 0, high: 1}, {x: "iteration", y: "probability of the answer"});
      const {toX, inner: {top, bottom}, canvas} = space;
      canvas.append(svg("path", {class: "curve model", d: line(probabilities.map((row, t) => [t + 1, row[place]]), space)}));
      if (this.trained < steps) canvas.append(svg("line", {class: "trained", x1: toX(this.trained), x2: toX(this.trained), y1: top, y2: bottom}));
      canvas.append(svg("line", {class: "cursor", x1: toX(this.iteration), x2: toX(this.iteration), y1: top, y2: bottom}));
      // iterations with the same answer stand in one row
      const rows = [];
      answers.forEach((row, t) => {
        if (rows.at(-1)?.answer === row[place]) rows.at(-1).last = t; else rows.push({answer: row[place], first: t, last: t});
      });
      byId("answers").replaceChildren(...rows.map(({answer, first, last}) => {
        const span = probabilities.slice(first, last + 1).map((row) => row[place]), low = Math.min(...span), high = Math.max(...span);
        return html("tr", {}, html("th", {scope: "row"}, first === last ? `${first + 1}` : `${first + 1} to ${last + 1}`), html("td", {}, answer),
          html("td", {}, low === high ? low.toFixed(2) : `${low.toFixed(2)} to ${high.toFixed(2)}`));
      }));
    }
  }

  algoformer.start = () => {
    self.explorer = new AnswersView(JSON.parse(byId("model").textContent));
    document.documentElement.dataset.state = "ready";
  };
})((self.algoformer = self.algoformer || {}));
