// Classifications by iteration: the tokens of a text or the cells of a board, and one of them in detail.
"use strict";
(function (algoformer) {
  const {byId, html, svg, plot, line} = algoformer;

  class Cells {
    // `chosen(place)` is called when the reader chooses another cell.
    constructor(chosen) {
      Object.assign(this, {chosen, place: 0, iteration: 1, input: {answers: []}});
      byId("cells").addEventListener("keydown", (event) => this.walk(event));
      new ResizeObserver(() => this.draw()).observe(byId("chances"));
    }

    // `input` is {names, answers, probabilities, exits, targets, grid, block, given, wrong, trained, bare, ran}; the
    // answers and what follows from them may still grow. Names of `bare` cells are not drawn, and a cell that
    // `ran` fewer iterations than others keeps its last answer.
    open(input) {
      this.input = input;
      const {names, grid, block} = input, cells = byId("cells");
      this.place = Math.min(this.place, names.length - 1);
      cells.classList.toggle("board", Boolean(grid));
      cells.classList.toggle("bare", Boolean(input.bare));
      cells.style.gridTemplateColumns = grid ? `repeat(${grid[1]}, minmax(0, 1fr))` : "";
      this.cells = names.map((name, place) => {
        const cell = html("button", {type: "button", class: "cell"}, html("span", {class: "name"}, name),
          html("b", {}), html("i", {class: "bar", "aria-hidden": "true"}), html("span", {class: "exit"}));
        if (block) {
          const row = Math.floor(place / grid[1]), column = place % grid[1];
          cell.classList.toggle("below", row > 0 && row % block === 0);
          cell.classList.toggle("beside", column > 0 && column % block === 0);
        }
        cell.addEventListener("click", () => this.choose(place));
        return cell;
      });
      cells.replaceChildren(...this.cells);
    }

    choose(place) {
      this.place = place;
      this.chosen(place);
      this.show(this.iteration);
    }

    // Arrow keys walk over a board.
    walk(event) {
      const {grid} = this.input;
      if (!grid) return;
      const move = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -grid[1], ArrowDown: grid[1]}[event.key], to = this.place + move;
      if (!move || to < 0 || to >= this.cells.length) return;
      if (Math.abs(move) === 1 && Math.floor(to / grid[1]) !== Math.floor(this.place / grid[1])) return;
      event.preventDefault();
      this.cells[to].focus();
      this.choose(to);
    }

    show(iteration) {
      this.iteration = iteration;
      const {answers, probabilities, exits, names, given, wrong} = this.input;
      const at = Math.min(iteration, answers.length) - 1;
      if (at < 0) return;
      this.cells.forEach((cell, place) => {
        const answer = answers[at][place], chance = probabilities[at][place], settled = exits[place] <= iteration;
        const own = given?.[place], asked = answer !== null, bad = wrong?.(at, place) ?? false;
        cell.querySelector("b").textContent = own ?? answer ?? "";
        cell.querySelector(".bar").style.setProperty("--share", asked ? chance : 0);
        cell.querySelector(".exit").textContent = own != null || !asked ? "" : settled ? `${exits[place]}` : "·";
        cell.style.setProperty("--chance", chance);
        cell.classList.toggle("given", own != null);
        cell.classList.toggle("silent", !asked);
        cell.classList.toggle("settled", settled);
        cell.classList.toggle("wrong", bad);
        cell.setAttribute("aria-pressed", String(place === this.place));
        const said = own != null ? `given ${own}` : !asked ? "not a question"
          : `${answer}, probability ${chance.toFixed(2)}, ${settled ? `settled since iteration ${exits[place]}` : "still changes"}`;
        cell.setAttribute("aria-label", `${names[place]}: ${said}${bad ? ", wrong" : ""}`);
      });
      this.draw();
    }

    // The chosen position: its answers and their probabilities after every iteration.
    draw() {
      const {answers, probabilities, names, trained, ran} = this.input, {place} = this, steps = answers.length;
      if (!steps) return;
      byId("chosen").textContent = this.input.grid || this.input.bare ? names[place] : `Position ${place + 1}: ${names[place]}`;
      const space = plot(byId("chances"), {low: 1, high: Math.max(2, steps), whole: true}, {low: 0, high: 1}, {x: "iteration", y: "probability of the answer"});
      const {toX, inner: {top, bottom}, canvas} = space;
      if (answers[0][place] === null) {
        byId("answers").replaceChildren(html("tr", {}, html("td", {colspan: 3}, "The model is not asked here.")));
        return;
      }
      canvas.append(svg("path", {class: "curve model", d: line(probabilities.slice(0, ran?.[place]).map((row, t) => [t + 1, row[place]]), space)}));
      marks(canvas, {toX, top, bottom, trained, steps, iteration: this.iteration});
      // iterations with the same answer stand in one row
      const rows = [];
      answers.slice(0, ran?.[place]).forEach((row, t) => {
        if (rows.at(-1)?.answer === row[place]) rows.at(-1).last = t; else rows.push({answer: row[place], first: t, last: t});
      });
      byId("answers").replaceChildren(...rows.map(({answer, first, last}) => {
        const span = probabilities.slice(first, last + 1).map((row) => row[place]), low = Math.min(...span), high = Math.max(...span);
        return html("tr", {}, html("th", {scope: "row"}, first === last ? `${first + 1}` : `${first + 1} to ${last + 1}`), html("td", {}, answer),
          html("td", {}, low.toFixed(2) === high.toFixed(2) ? low.toFixed(2) : `${low.toFixed(2)} to ${high.toFixed(2)}`));
      }));
    }
  }

  // Lines at the trained depth and at the iteration that is shown.
  function marks(canvas, {toX, top, bottom, trained, steps, iteration}) {
    const upright = (kind, at) => svg("line", {class: kind, x1: toX(at), x2: toX(at), y1: top, y2: bottom});
    if (trained < steps) canvas.append(upright("trained", trained));
    canvas.append(upright("cursor", Math.min(iteration, steps)));
  }

  // The iteration since which the answer at a place has not changed.
  const settledAt = (answers, place) =>
    answers.findLastIndex((row, t) => t > 0 && row[place] !== answers[t - 1][place]) + 1 || 1;

  Object.assign(algoformer, {Cells, marks, settledAt});
})((self.algoformer = self.algoformer || {}));
