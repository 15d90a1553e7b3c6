// The page: what the controls do, what runs, and what is said about it.
"use strict";
(function (algoformer) {
  const {html, svg, show, plot, line, METHODS} = algoformer;
  const byId = (id) => document.getElementById(id);
  const FORMAT = 1;

  const LABELS = {model: "the model", descent: "gradient descent", newton: "Newton's method", textbook: "the textbook", least: "least squares"};

  function fail(message) {
    byId("conclusion").textContent = message;
    document.documentElement.dataset.state = "failed";
  }

  class Explorer {
    constructor(pack) {
      this.pack = pack;
      this.pairs = pack.pairs;
      this.prompt = this.pairs ? new algoformer.PairPrompt(pack) : new algoformer.StoredPrompt(pack);
      this.trained = pack.trained;
      this.depth = pack.depth;
      this.iteration = 1;
      this.answers = []; this.paths = []; this.busy = false; this.pending = false; this.looking = false;
      this.gridSize = pack.full_attention ? 5 : 25;
      this.client = new algoformer.Client(pack, (message) => this.receive(message));
      this.inside = new algoformer.Inside({
        diagram: byId("diagram"), layer: byId("layer"), maps: byId("maps"), mapsTitle: byId("maps-title"),
        path: byId("path"), pathTitle: byId("path-title"),
      }, pack.program, (token) => this.prompt.tokenName(token, this.inside.message), Boolean(pack.textbook));
      if (this.pairs) this.fit = new algoformer.Fit(byId("fit"), this.prompt, () => this.request());
      new ResizeObserver(() => this.drawErrors()).observe(byId("errors"));
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.inside.draw());
      this.connect();
      this.request();
    }

    // Controls -------------------------------------------------------------------------------------------

    connect() {
      const on = (id, event, act) => byId(id).addEventListener(event, act);
      on("new", "click", () => this.newPrompt(this.prompt.seed + 1));
      on("play", "click", () => this.play());
      on("iteration", "input", () => this.setIteration(Number(byId("iteration").value)));
      on("depth", "change", () => { this.depth = Number(byId("depth").value); this.limit(); this.request(); });
      on("errors", "pointerdown", (event) => this.pick(event));
      const depths = [...new Set([1, 2, 5, 10, 50].map((factor) => factor * this.trained).concat(this.depth))].sort((a, b) => a - b);
      byId("depth").replaceChildren(...depths.map((depth) => html("option", {value: depth}, `${depth}`)));
      byId("depth").value = this.depth;
      if (this.pairs) this.connectPairs(on); else this.connectRows(on);
      this.limit();
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

    limit() {
      const slider = byId("iteration");
      slider.max = this.depth;
      this.setIteration(Math.min(this.iteration === 1 ? Math.min(this.trained, this.depth) : this.iteration, this.depth));
    }

    setIteration(iteration) {
      this.iteration = iteration;
      byId("iteration").value = iteration;
      byId("iteration").setAttribute("aria-valuetext", `iteration ${iteration} of ${this.depth}`);
      const beyond = iteration > this.trained ? `, ${show(iteration / this.trained)} × the trained depth` : "";
      byId("iteration-value").textContent = `${iteration} of ${this.depth}${beyond}`;
      algoformer.showFilters(iteration);
      this.update();
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

    play() {
      const button = byId("play");
      if (this.timer) {
        clearInterval(this.timer);
        this.timer = null;
      } else {
        if (this.iteration >= Math.min(this.trained, this.depth)) this.setIteration(1);
        this.timer = setInterval(() => {
          if (this.iteration >= this.depth) return this.play();
          // the further it is, the larger the steps: playing takes about as long at any depth
          const next = this.iteration + Math.max(1, Math.floor(this.iteration / 15));
          if (next <= this.answers.length || !this.running) this.setIteration(Math.min(next, this.depth));
        }, 220);
      }
      button.textContent = this.timer ? "Pause" : "Play";
      button.setAttribute("aria-pressed", String(Boolean(this.timer)));
    }

    // Running --------------------------------------------------------------------------------------------

    request() {
      if (this.busy) { this.pending = true; return; }
      const {prompt} = this, rows = prompt.rows();
      this.busy = true; this.running = true;
      this.fresh = true;
      if (this.pairs) {
        this.values = this.fit.grid(this.gridSize);
        this.questions = [prompt.question.slice(), ...prompt.questions(this.values)];
        this.runTextbook();
      }
      const reads = this.pairs ? [rows.length - 1] : prompt.reads;
      this.current = this.client.run({
        rows, reads, questions: this.pairs ? this.questions.slice(1) : [],
        steps: this.pack.looping ? this.depth : 1, follow: true,
      });
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

    receive(message) {
      if (message.kind === "failed") return fail(message.message);
      if (message.kind !== "steps" || message.id !== this.current) return;
      if (this.fresh) { this.answers = []; this.paths = []; this.fresh = false; }
      for (const numbers of message.answers) this.answers.push(numbers);
      this.paths.push(...message.paths);
      this.seconds = message.seconds;
      this.running = !message.done;
      this.busy = false;
      byId("progress").value = this.answers.length / (this.pack.looping ? this.depth : 1);
      byId("status").textContent = message.done ? `${this.answers.length} iterations in ${show(message.seconds)} s` : `iteration ${this.answers.length} …`;
      this.update();
      if (this.pending) { this.pending = false; this.request(); }
      if (message.done) document.documentElement.dataset.state = "ready";
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

    update() {
      if (!this.answers.length) return;
      const at = Math.min(this.iteration, this.answers.length) - 1;
      if (this.pairs) this.fit.show(this.curves(at));
      this.drawErrors();
      this.table(at);
      this.inside.follow(this.paths, this.iteration);
      if (!this.running) this.lookSoon(at + 1);
    }

    curves(at) {
      const drawn = (answers) => this.values.map((value, k) => [value, answers[k + 1]]);
      const found = [{name: "least", points: drawn(this.least), answer: this.least[0]}];
      for (const [name, steps] of Object.entries(this.methods)) found.push({name, points: drawn(steps[at]), answer: steps[at][0]});
      const model = {name: "model", points: drawn(this.answers[at]), answer: this.answers[at][0]};
      // the dashes of a textbook that the weights equal are drawn over their line, all others below it
      return this.pack.textbook ? [model, ...found] : [...found, model];
    }

    // Attention maps are asked for one at a time, always those of the newest iteration.
    lookSoon(step) {
      this.wanted = step;
      if (this.looking) return;
      this.looking = true;
      const run = this.current;
      this.client.look(step).then((message) => {
        this.looking = false;
        if (message.kind === "maps") this.inside.look(message);
        if (this.wanted !== step || run !== this.current) this.lookSoon(this.wanted);
      });
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
      const series = this.series(), floor = 1e-18;
      const values = series.flatMap(([, numbers]) => numbers).filter((value) => Number.isFinite(value) && value > floor);
      const low = 10 ** Math.floor(Math.log10(Math.min(...values, 1))), high = 10 ** Math.ceil(Math.log10(Math.max(...values, 10 * low)));
      const space = plot(byId("errors"), {low: 1, high: Math.max(2, this.depth), log: this.depth > 60}, {low: Math.max(low, floor), high: Math.min(high, 1e12), log: true},
        {x: "iteration", y: this.pairs ? "error: squared distance from least squares" : "mean squared error"});
      this.errorSpace = space;
      const {toX, inner, canvas} = space;
      if (this.trained < this.depth) {
        canvas.append(svg("line", {class: "trained", x1: toX(this.trained), x2: toX(this.trained), y1: inner.top, y2: inner.bottom}));
        canvas.append(svg("text", {class: "label", x: toX(this.trained) + 4, y: inner.bottom - 6}, this.pack.textbook ? "default depth" : "trained depth"));
      }
      for (const [name, numbers] of series) {
        const points = numbers.map((value, t) => [t + 1, Math.max(value, floor)]);
        canvas.append(svg("path", {class: `curve ${name}`, d: line(points, space)}));
      }
      const at = Math.min(this.iteration, this.depth);
      canvas.append(svg("line", {class: "cursor", x1: toX(at), x2: toX(at), y1: inner.top, y2: inner.bottom}));
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
      byId("now").textContent = text;
      if (!this.pack.lead && !this.running) byId("conclusion").textContent = text;
    }
  }

  function open() {
    const pack = JSON.parse(byId("model").textContent);
    if (pack.format !== FORMAT) {
      throw new Error("this page was put together from two versions of algoformer; make it again with algoformer explore");
    }
    algoformer.describePage(pack);
    self.explorer = new Explorer(pack);
    explorer.predict = (rows, reads, steps, questions) => algoformer.predict(pack, rows, reads, steps, questions);
  }

  // Whatever goes wrong is said in the place of the conclusion.
  function start() {
    try {
      open();
    } catch (error) {
      fail(String(error.message ?? error));
    }
  }

  algoformer.start = start;
})((self.algoformer = self.algoformer || {}));
