// Drawing: SVG elements, axes with round numbers, lines, and heat maps. Sizes are those of the element.
"use strict";
(function (algoformer) {
  const SPACE = "http:\u002f/www.w3.org/2000/svg";
  const byId = (id) => document.getElementById(id);

  function svg(tag, attributes = {}, ...children) {
    const element = document.createElementNS(SPACE, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  function html(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  // Numbers as people read them: three digits, powers of ten where they are shorter.
  function show(value) {
    if (!Number.isFinite(value)) return Number.isNaN(value) ? "not a number" : value > 0 ? "∞" : "−∞";
    const size = Math.abs(value);
    if (size === 0) return "0";
    const plain = size >= 1e-3 && size < 1e4;
    const text = plain ? String(Number(value.toPrecision(3))) : value.toExponential(1).replace("e+", "e");
    return text.replace(/-/g, "−");
  }

  function ticks(low, high, most, whole) {
    const rough = Math.max((high - low) / most, whole ? 1 : 0), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((unit) => unit * power).find((size) => size >= rough);
    const found = [];
    const first = Math.ceil(low / step - 1e-9), count = Math.min(20, Math.floor(high / step + 1e-9) - first + 1);
    for (let k = 0; k < count; k++) found.push((first + k) * step);
    return found;
  }

  function logTicks(low, high, most) {
    const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
    const step = Math.max(1, Math.ceil((last - first + 1) / most)), found = [];
    for (let power = first; power <= last; power += step) found.push(10 ** power);
    return found;
  }

  const scale = ({low, high, log}, from, to) => {
    const map = log ? Math.log10 : (value) => value, start = map(low), span = map(high) - start || 1;
    return (value) => from + ((map(value) - start) / span) * (to - from);
  };

  const power = (value) => {
    const exponent = Math.round(Math.log10(value));
    if (exponent >= -2 && exponent <= 3) return String(Number(value.toPrecision(6)));
    return "10" + String(exponent).replace("-", "⁻").replace(/\d/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]);
  };

  // A plot with axes in `element`; gives the mapping from values to places, and a group to draw in.
  function plot(element, x, y, labels) {
    const box = element.getBoundingClientRect(), width = Math.max(box.width, 120), height = Math.max(box.height, 120);
    const mark = (axis) => (axis.log ? logTicks(axis.low, axis.high, 6) : ticks(axis.low, axis.high, width < 420 ? 5 : 7, axis.whole));
    const say = (axis, value) => (axis.log ? power(value) : String(Number(value.toPrecision(6))).replace("-", "−"));
    // the longest number beside the vertical axis decides how much room it gets
    const room = Math.max(46, 14 + 7 * Math.max(0, ...mark(y).map((value) => say(y, value).length)));
    const inner = {left: room, right: width - 10, top: labels.y ? 26 : 10, bottom: height - 36};
    const toX = scale(x, inner.left, inner.right), toY = scale(y, inner.bottom, inner.top);
    element.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const axes = svg("g", {class: "axes", "aria-hidden": "true"});
    for (const value of mark(x)) {
      axes.append(svg("line", {x1: toX(value), x2: toX(value), y1: inner.top, y2: inner.bottom}));
      // a number at the right edge ends there, so that it is not cut off
      const anchor = toX(value) + 3.5 * say(x, value).length > width ? "end" : "middle";
      axes.append(svg("text", {x: anchor === "end" ? width : toX(value), y: inner.bottom + 15, "text-anchor": anchor}, say(x, value)));
    }
    for (const value of mark(y)) {
      axes.append(svg("line", {x1: inner.left, x2: inner.right, y1: toY(value), y2: toY(value)}));
      axes.append(svg("text", {x: inner.left - 6, y: toY(value) + 4, "text-anchor": "end"}, say(y, value)));
    }
    axes.append(svg("text", {x: (inner.left + inner.right) / 2, y: height - 4, "text-anchor": "middle", class: "label"}, labels.x));
    if (labels.y) axes.append(svg("text", {x: 4, y: 14, class: "label"}, labels.y));
    // what is drawn in `canvas` ends at the axes; what is drawn in `above` may stand over them
    const {left, right, top, bottom} = inner, clip = `${element.id}-clip`, above = svg("g");
    const frame = svg("rect", {x: left, y: top, width: right - left, height: bottom - top});
    const canvas = svg("g", {"clip-path": `url(#${clip})`});
    element.replaceChildren(svg("clipPath", {id: clip}, frame), axes, canvas, above);
    return {toX, toY, inner, canvas, above, x, y};
  }

  // A path through points; a value that is not finite ends a piece of it.
  function line(points, {toX, toY, inner}) {
    let text = "", open = false;
    for (const [x, y] of points) {
      const place = toY(y);
      if (!Number.isFinite(place)) { open = false; continue; }
      text += `${open ? "L" : "M"}${toX(x).toFixed(1)} ${Math.max(inner.top - 400, Math.min(inner.bottom + 400, place)).toFixed(1)}`;
      open = true;
    }
    return text;
  }

  const FLOOR = 1e-18;

  // Errors by iteration on a logarithmic axis, with marks at the trained depth and at the shown iteration.
  function drawErrors(element, series, {depth, trained, iteration, mark, label}) {
    const values = series.flatMap(([, numbers]) => numbers).filter((value) => Number.isFinite(value) && value > FLOOR);
    const low = 10 ** Math.floor(Math.log10(Math.min(...values, 1))), high = 10 ** Math.ceil(Math.log10(Math.max(...values, 10 * low)));
    const x = {low: 1, high: Math.max(2, depth), log: depth > 60, whole: true}, y = {low: Math.max(low, FLOOR), high: Math.min(high, 1e12), log: true};
    const space = plot(element, x, y, {x: "iteration", y: label}), {toX, inner: {top, bottom}, canvas} = space;
    const upright = (kind, at) => svg("line", {class: kind, x1: toX(at), x2: toX(at), y1: top, y2: bottom});
    if (trained < depth) {
      canvas.append(upright("trained", trained), svg("text", {class: "label", x: toX(trained) + 4, y: bottom - 6}, mark));
    }
    for (const [name, numbers] of series) {
      const points = numbers.map((value, t) => [t + 1, Math.max(value, FLOOR)]);
      canvas.append(svg("path", {class: `curve ${name}`, d: line(points, space)}));
    }
    canvas.append(upright("cursor", Math.min(iteration, depth)));
    return space;
  }

  // A square heat map of weights between 0 and 1, shaded by their root or, for very small ones, their logarithm.
  function heat(canvas, values, size, ink, paper, logarithmic) {
    canvas.width = canvas.height = size;
    const context = canvas.getContext("2d"), image = context.createImageData(size, size);
    for (let k = 0; k < size * size; k++) {
      const share = logarithmic ? Math.max(0, 1 + Math.log10(values[k]) / 16) : Math.sqrt(values[k]);
      for (let c = 0; c < 3; c++) image.data[4 * k + c] = paper[c] + share * (ink[c] - paper[c]);
      image.data[4 * k + 3] = 255;
    }
    context.putImageData(image, 0, 0);
  }

  const color = (name) => {
    const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    return [1, 3, 5].map((start) => parseInt(text.slice(start, start + 2), 16));
  };

  Object.assign(algoformer, {byId, svg, html, show, plot, line, drawErrors, heat, color});
})((self.algoformer = self.algoformer || {}));
