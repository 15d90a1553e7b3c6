// The page of regression: what the controls do, what is asked, and what is said about the answers.
"use strict";
(function (algoformer) {
  const {byId, html, show, METHODS} = algoformer;

  const LABELS = {model: "the model", descent: "gradient descent", newton: "Newton's method", textbook: "the textbook", least: "least squares"};

  class Explorer extends algoformer.Runner {
    constructor(pack) {
      super(pack, {pace: 220, subject: "The question", tokenName: (token, message) => this.prompt.tokenName(token, message)});
      this.pairs = pack.pairs;
      this.prompt = this.pairs ? new algoformer.PairPrompt(pack) : new algoformer.StoredPrompt(pack);
      this.gridSize = pack.full_attention ? 5 : 25;
      if (this.pairs) this.fit = new algoformer.Fit(byId("fit"), this.prompt, () => this.request());
      new ResizeObserver(() => this.drawErrors()).observe(byId("errors"));
      algoformer.describePage(pack);
      this.connect();
    }

    // Controls -------------------------------------------------------------------------------------------

    connect() {
      const on = (id, event, act) => byId(id).addEventListener(event, act);
      on("new", "click", () => this.newPrompt(this.prompt.seed + 1));
      on("errors", "pointerdown", (event) => this.pick(event));
      if (this.pairs) this.connectPairs(on); else this.connectRows(on);
    }

    connectPairs(on) {
      const {prompt} = this, examples = byId("examples"), noise = byId("noise");
      examples.max = prompt.most; examples.value = prompt.count;
      noise.value = prompt.noise;
      const say = () => {
        byId("examples-value").textContent = prompt.count;
        byId("noise-value").textContent = prompt.noise.toFixed(2);
      };
      say();
      on("examples", "input", () => { prompt.resize(Number(examples.value)); say(); this.fit.draw(); this.request(); });
      on("noise", "input", () => { prompt.disturb(Number(noise.value)); say(); this.fit.draw(); this.request(); });
      byId("coordinate").replaceChildren(...Array.from({length: prompt.dim}, (_, k) => html("option", {value: k}, k + 1)));
      on("coordinate", "change", () => { prompt.coordinate = Number(byId("coordinate").value); this.fit.draw(); this.request(); });
    }

    connectRows(on) {
      const row = byId("row"), column = byId("column"), value = byId("value");
      row.max = this.prompt.own.length; column.max = this.pack.sizes.dim;
      const read = () => { value.value = this.prompt.own[row.value - 1]?.[column.value - 1] ?? 0; };
      for (const id of ["row", "column"]) on(id, "input", read);
      on("value", "input", () => {
        const numbers = this.prompt.own[row.value - 1];
        if (!numbers || !Number.isFinite(value.valueAsNumber)) return;
        numbers[column.value - 1] = value.valueAsNumber;
        this.request();
      });
      this.readValue = read;
      read();
    }

    newPrompt(seed) {
      this.prompt.draw(seed);
      this.readValue?.();
      this.fit?.draw();
      this.request();
    }

    setIteration(iteration) {
      algoformer.showFilters(iteration);
      super.setIteration(iteration);
    }

    pick(event) {
      if (!this.errorSpace || !this.pack.looping) return;
      const box = byId("errors").getBoundingClientRect(), {toX} = this.errorSpace;
      let best = 1;
      for (let t = 1; t <= this.depth; t++) {
        if (Math.abs(toX(t) - (event.clientX - box.left)) < Math.abs(toX(best) - (event.clientX - box.left))) best = t;
      }
      this.setIteration(best);
    }

    // Running --------------------------------------------------------------------------------------------

    job() {
      const {prompt} = this, rows = prompt.rows();
      if (!this.pairs) return {rows, reads: prompt.reads, follow: prompt.reads.at(-1)};
      this.values = this.fit.grid(this.gridSize);
      this.questions = [prompt.question.slice(), ...prompt.questions(this.values)];
      this.runTextbook();
      return {rows, reads: [rows.length - 1], questions: this.questions.slice(1), follow: rows.length - 1};
    }

    runTextbook() {
      const {prompt, pack, depth} = this, problem = prompt.moments();
      const asked = this.questions.map((question) => prompt.features(question));
      const solve = (method, constants) => algoformer.solve(method, problem, constants, asked, depth);
      const weights = algoformer.leastSquares(problem);
      this.least = Float64Array.from(asked, (question) => algoformer.dot(question, weights));
      this.methods = {descent: solve("gradient_descent", pack.rivals), newton: solve("newton", pack.rivals)};
      if (pack.textbook) {
        const own = solve(pack.textbook.method, pack.textbook);
        this.methods = {textbook: own};
      }
    }

    // Showing --------------------------------------------------------------------------------------------

    // Mean squared distance of answers from least squares, or from the targets where there are none.
    distance(answers) {
      if (!answers) return NaN;
      const goal = this.pairs ? this.least : this.prompt.targets.flat();
      let sum = 0;
      for (let k = 0; k < goal.length; k++) sum += (answers[k] - goal[k]) ** 2;
      return sum / goal.length / this.pack.scale;
    }

    draw(at) {
      if (this.pairs) this.fit.show(this.curves(at));
      this.drawErrors();
      this.table(at);
    }

    curves(at) {
      const drawn = (answers) => this.values.map((value, k) => [value, answers[k + 1]]);
      const found = [{name: "least", points: drawn(this.least), answer: this.least[0]}];
      for (const [name, steps] of Object.entries(this.methods)) found.push({name, points: drawn(steps[at]), answer: steps[at][0]});
      const model = {name: "model", points: drawn(this.answers[at]), answer: this.answers[at][0]};
      // the dashes of a textbook that the weights equal are drawn over their line, all others below it
      return this.pack.textbook ? [model, ...found] : [...found, model];
    }

    series() {
      const found = Object.entries(this.pairs ? this.methods : {}).map(([name, steps]) => [name, steps.map((answers) => this.distance(answers))]);
      found.push(["model", this.answers.map((answers) => this.distance(answers))]);
      if (this.pack.textbook) found.push(["difference", this.answers.map((answers, t) => this.gap(answers, t))]);
      return found;
    }

    // The largest difference from the textbook over all questions after iteration t + 1.
    gap(answers, t) {
      return answers.reduce((most, answer, k) => Math.max(most, Math.abs(answer - this.methods.textbook[t][k])), 0);
    }

    drawErrors() {
      if (!this.answers.length) return;
      const {depth, trained, iteration} = this, mark = this.pack.textbook ? "default depth" : "trained depth";
      const label = this.pairs ? "error: squared distance from least squares" : "mean squared error";
      this.errorSpace = algoformer.drawErrors(byId("errors"), this.series(), {depth, trained, iteration, mark, label});
    }

    table(at) {
      const rows = [["model", this.answers[at]]];
      if (this.pairs) rows.push(...Object.entries(this.methods).map(([name, steps]) => [name, steps[at]]), ["least", this.least]);
      byId("answers").replaceChildren(...rows.map(([name, answers]) => html("tr", {},
        html("th", {scope: "row"}, html("i", {class: `swatch ${name}`, "aria-hidden": "true"}), this.label(name)),
        html("td", {}, show(this.pairs ? answers[0] : answers.at(-1))), html("td", {}, show(this.distance(answers))))));
      this.say(at);
    }

    label(name) {
      return name === "textbook" ? METHODS[this.pack.textbook.method].label : LABELS[name];
    }

    // What the numbers of this prompt say, in one sentence.
    say(at) {
      const t = at + 1, times = t === 1 ? "1 iteration" : `${t} iterations`;
      const own = show(this.distance(this.answers[at]));
      let text;
      if (this.pack.textbook) {
        const most = Math.max(...this.answers.slice(0, t).map((answers, k) => this.gap(answers, k)));
        text = `After ${times} the weights and the textbook differ by at most ${show(most)} on this prompt.`;
        if (!Number.isFinite(most) || most > 1e3) text = "On these points the textbook method diverges, and the weights with it.";
      } else if (this.pairs) {
        const others = `gradient descent ${show(this.distance(this.methods.descent[at]))}, Newton's method ${show(this.distance(this.methods.newton[at]))}`;
        text = `On this prompt the model's error is ${own} after ${times}; ${others}.`;
      } else {
        text = `On this prompt the model's mean squared error is ${own} after ${times}.`;
      }
      this.conclude(text);
    }
  }

  algoformer.start = () => algoformer.open(Explorer);
})((self.algoformer = self.algoformer || {}));
