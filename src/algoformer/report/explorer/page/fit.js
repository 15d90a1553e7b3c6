// The picture of a prompt of pairs: examples to drag, the question, and the answers of every method.
"use strict";
(function (algoformer) {
  const {svg, plot, line, show} = algoformer;
  const SPAN = 3.2;
  const within = (value, limit) => Math.max(-limit, Math.min(limit, value));

  class Fit {
    constructor(element, prompt, changed) {
      Object.assign(this, {element, prompt, changed, curves: []});
      new ResizeObserver(() => this.draw()).observe(element);
    }

    // The values of x at which the answers are drawn.
    grid(count) {
      return Array.from({length: count}, (_, k) => -SPAN + (2 * SPAN * k) / (count - 1));
    }

    draw() {
      const {prompt} = this, high = prompt.range;
      const coordinate = prompt.dim > 1 ? `coordinate ${prompt.coordinate + 1} of x` : "x";
      this.space = plot(this.element, {low: -SPAN, high: SPAN}, {low: -high, high}, {x: coordinate, y: "y"});
      const {canvas, above} = this.space;
      this.lines = svg("g", {class: "lines"});
      this.handles = svg("g", {class: "handles"});
      this.answer = svg("circle", {r: 5, class: "answer", "aria-hidden": "true"});
      canvas.append(this.lines);
      above.append(this.answer, this.handles);
      this.drawQuestion();
      prompt.points.forEach((_, index) => this.drawPoint(index));
      this.show(this.curves);
    }

    // Each curve is {name, points, answer}; the model's also marks its answer to the question.
    show(curves) {
      this.curves = curves;
      if (!this.space) return;
      this.lines.replaceChildren(...curves.map(({name, points}) =>
        svg("path", {d: line(points, this.space), class: `curve ${name}`})));
      const model = curves.find(({name}) => name === "model");
      const {toX, toY, inner} = this.space;
      const place = model ? toY(model.answer) : NaN;
      this.answer.style.display = Number.isFinite(place) ? "" : "none";
      if (Number.isFinite(place)) {
        this.answer.setAttribute("cx", toX(this.prompt.question[this.prompt.coordinate]));
        this.answer.setAttribute("cy", Math.max(inner.top, Math.min(inner.bottom, place)));
      }
    }

    drawPoint(index) {
      const handle = svg("circle", {r: 8, tabindex: 0, class: "point", role: "slider", "data-index": index});
      this.handles.append(handle);
      const place = () => {
        const {x, y} = this.prompt.points[index], value = x[this.prompt.coordinate];
        handle.setAttribute("cx", this.space.toX(value));
        handle.setAttribute("cy", this.space.toY(y));
        handle.setAttribute("aria-label", `Example ${index + 1}: drag it, or move it with the arrow keys`);
        handle.setAttribute("aria-valuenow", y.toFixed(2));
        handle.setAttribute("aria-valuemin", -this.prompt.range);
        handle.setAttribute("aria-valuemax", this.prompt.range);
        handle.setAttribute("aria-valuetext", `x ${show(value)}, y ${show(y)}`);
      };
      place();
      const point = this.prompt.points[index];
      const read = () => [point.x[this.prompt.coordinate], point.y];
      this.listen(handle, read, (x, y) => {
        point.x[this.prompt.coordinate] = within(x, SPAN);
        point.y = within(y, this.prompt.range);
        place();
      });
    }

    drawQuestion() {
      const handle = svg("g", {tabindex: 0, class: "question", role: "slider", "aria-valuemin": -SPAN, "aria-valuemax": SPAN});
      const stem = svg("line"), knob = svg("path");
      handle.append(stem, knob);
      this.handles.append(handle);
      const place = () => {
        const value = this.prompt.question[this.prompt.coordinate], {toX, inner} = this.space, x = toX(value);
        for (const [name, at] of Object.entries({x1: x, x2: x, y1: inner.top, y2: inner.bottom})) stem.setAttribute(name, at);
        knob.setAttribute("d", `M${x - 9} ${inner.bottom + 1}h18l-9 -15z`);
        handle.setAttribute("aria-label", "The question: drag it, or move it with the arrow keys");
        handle.setAttribute("aria-valuenow", value.toFixed(2));
        handle.setAttribute("aria-valuetext", `x ${show(value)}`);
      };
      place();
      const {prompt} = this;
      this.listen(handle, () => [prompt.question[prompt.coordinate], 0], (x) => {
        prompt.question[prompt.coordinate] = within(x, SPAN);
        place();
      });
    }

    // Let a handle follow the pointer and the arrow keys.
    listen(handle, read, write) {
      let offset = null;
      const pointer = (event) => {
        const box = this.element.getBoundingClientRect(), {inner, x, y} = this.space;
        return [
          x.low + ((event.clientX - box.left - inner.left) / (inner.right - inner.left)) * (x.high - x.low),
          y.high - ((event.clientY - box.top - inner.top) / (inner.bottom - inner.top)) * (y.high - y.low),
        ];
      };
      const moveTo = (x, y) => { write(x, y); this.changed(); };
      handle.addEventListener("pointerdown", (event) => {
        handle.setPointerCapture(event.pointerId);
        const [x, y] = pointer(event), [ownX, ownY] = read();
        offset = [ownX - x, ownY - y];
        event.preventDefault();
        handle.focus({preventScroll: true});
      });
      handle.addEventListener("pointermove", (event) => {
        if (!offset) return;
        const [x, y] = pointer(event);
        moveTo(x + offset[0], y + offset[1]);
      });
      for (const end of ["pointerup", "pointercancel"]) handle.addEventListener(end, () => { offset = null; });
      handle.addEventListener("keydown", (event) => {
        const step = event.shiftKey ? 0.5 : 0.1, unit = (step * this.prompt.range) / SPAN;
        const moves = {ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, unit], ArrowDown: [0, -unit]};
        const chosen = moves[event.key];
        if (!chosen) return;
        event.preventDefault();
        const [x, y] = read();
        moveTo(x + chosen[0], y + chosen[1]);
      });
    }
  }

  algoformer.Fit = Fit;
})((self.algoformer = self.algoformer || {}));
