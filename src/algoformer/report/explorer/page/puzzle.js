// A prompt of symbols that the model answers with classes: a board that fills itself, or a sequence.
"use strict";
(function (algoformer) {
  const {byId, html, svg, plot, line, top, Cells, Runner, marks, settledAt} = algoformer;

  class Puzzle extends Runner {
    constructor(pack) {
      super(pack, {pace: 500, subject: "The chosen cell", tokenName: (token, message) => this.tokenName(token, message)});
      const {symbols} = pack.puzzle;
      this.puzzle = pack.puzzle;
      this.cells = new Cells(() => { this.readGiven(); this.request(); });
      byId("given").replaceChildren(...symbols.map((symbol, k) => html("option", {value: k}, symbol || "empty")));
      byId("given").addEventListener("change", () => this.give(Number(byId("given").value)));
      byId("new").addEventListener("click", () => { this.take((this.number + 1) % pack.prompts.length); this.request(); });
      byId("cells").addEventListener("keydown", (event) => this.type(event));
      new ResizeObserver(() => this.drawShares()).observe(byId("shares"));
      this.take(0);
    }

    // Show a stored prompt.
    take(number) {
      const {symbols, targets, reads} = this.pack.prompts[number];
      Object.assign(this, {number, reads, own: symbols.slice(), targets: new Map(reads.map((row, k) => [row, targets[k]]))});
      const grid = this.puzzle.grid, names = symbols.map((_, place) => this.nameOf(place));
      this.input = {names, grid, block: this.puzzle.block, trained: this.trained, answers: [], probabilities: [], exits: [], given: [], wrong: null};
      this.cells.open(this.input);
      this.readGiven();
    }

    nameOf(place) {
      if (!this.puzzle.grid) return this.puzzle.symbols[this.own[place]] || "empty";
      const columns = this.puzzle.grid[1];
      return `Row ${Math.floor(place / columns) + 1}, column ${(place % columns) + 1}`;
    }

    tokenName(token, {before, rows}) {
      const row = token - before;
      if (row < 0 || row >= rows) return "empty token";
      return this.puzzle.grid ? this.nameOf(row).toLowerCase() : `position ${row + 1}`;
    }

    rows() {
      const {length} = this.puzzle.symbols;
      return this.own.map((symbol) => Array.from({length}, (_, k) => Number(k === symbol)));
    }

    job() {
      return {rows: this.rows(), reads: this.reads, follow: this.cells.place};
    }

    // Editing --------------------------------------------------------------------------------------------

    readGiven() {
      byId("given").value = this.own[this.cells.place];
    }

    // Put a symbol into the chosen cell.
    give(symbol) {
      const {place} = this.cells;
      this.own[place] = symbol;
      this.input.names[place] = this.nameOf(place);
      this.cells.cells[place].querySelector(".name").textContent = this.input.names[place];
      this.readGiven();
      this.request();
    }

    // A key that is a symbol is given to the chosen cell; Delete and Backspace empty it.
    type(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const wanted = ["Delete", "Backspace"].includes(event.key) ? "" : event.key;
      const symbol = this.puzzle.symbols.indexOf(wanted);
      if (symbol < 0) return;
      event.preventDefault();
      this.give(symbol);
    }

    // Showing --------------------------------------------------------------------------------------------

    draw(at) {
      this.classify();
      this.cells.show(at + 1);
      this.drawShares();
      this.say(at);
    }

    // Turn scores into answers and probabilities, for the iterations that are new.
    classify() {
      const {classes} = this.puzzle, {input, answers} = this;
      if (input.scored !== answers) Object.assign(input, {scored: answers, answers: [], probabilities: []});
      for (const scores of answers.slice(input.answers.length)) {
        const named = new Array(this.own.length).fill(null), chances = new Array(this.own.length).fill(0);
        this.reads.forEach((row, k) => {
          const {best, chance} = top(scores.subarray(k * classes.length, (k + 1) * classes.length));
          named[row] = Number.isNaN(chance) ? "not a number" : classes[best];
          chances[row] = chance;
        });
        input.answers.push(named);
        input.probabilities.push(chances);
      }
      input.exits = this.own.map((_, place) => settledAt(input.answers, place));
      // on a board a cell that is not empty is given; its answer is not shown
      input.given = this.own.map((symbol) => (this.puzzle.grid ? this.puzzle.symbols[symbol] || null : null));
      this.edited = this.own.some((symbol, place) => symbol !== this.pack.prompts[this.number].symbols[place]);
      this.filled = input.answers.map((named) => named.map((answer, place) => input.given[place] ?? answer));
      const twice = this.edited ? this.filled.map((board) => this.clashes(board)) : null;
      input.wrong = (t, place) => (twice ? twice[t].has(place) : !input.given[place] && !this.right(t, place));
    }

    right(t, place) {
      return !this.targets.has(place) || this.input.answers[t][place] === this.puzzle.classes[this.targets.get(place)];
    }

    // Cells that hold the same as another cell of a row, column or block.
    clashes(board) {
      const found = new Set();
      for (const unit of this.puzzle.units) {
        for (const place of unit) if (unit.some((other) => other !== place && board[other] === board[place])) found.add(place);
      }
      return found;
    }

    // The cells that the model has to fill.
    empty() {
      return this.reads.filter((place) => !this.input.given[place]);
    }

    // The share of cells that are right after each iteration, or that follow the rules on an edited board.
    shares() {
      const empty = this.empty();
      return this.input.answers.map((_, t) => empty.filter((place) => !this.input.wrong(t, place)).length / Math.max(empty.length, 1));
    }

    // After an edit the solution is not known; what is left to check are the rules, if there are any.
    checked() {
      return !this.edited || this.puzzle.units.length > 0;
    }

    drawShares() {
      const steps = this.input.answers.length;
      if (!steps) return;
      const label = this.edited ? "share of cells that break no rule" : "share of answers that are right";
      const space = plot(byId("shares"), {low: 1, high: Math.max(2, steps), whole: true}, {low: 0, high: 1}, {x: "iteration", y: label});
      const {toX, inner: {top, bottom}, canvas} = space;
      if (this.checked()) canvas.append(svg("path", {class: "curve model", d: line(this.shares().map((share, t) => [t + 1, share]), space)}));
      marks(canvas, {toX, top, bottom, trained: this.trained, steps, iteration: this.iteration});
    }

    say(at) {
      const empty = this.empty(), times = at ? `${at + 1} iterations` : "1 iteration";
      const good = empty.filter((place) => !this.input.wrong(at, place)).length, all = `${good} of ${empty.length}`;
      this.conclude(!this.checked() ? "The answer to this edited prompt is not known to the page."
        : this.edited ? `After ${times} ${all} empty cells hold a digit that breaks no rule.` : `After ${times} ${all} answers are right.`);
    }
  }

  algoformer.start = () => algoformer.open(Puzzle);
})((self.algoformer = self.algoformer || {}));
