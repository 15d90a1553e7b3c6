// Textbook methods for linear regression in double precision, random prompts, and principal directions.
"use strict";
(function (algoformer) {
  const zeros = (rows, columns) => Array.from({length: rows}, () => new Float64Array(columns));
  const dot = (a, b) => a.reduce((sum, value, k) => sum + value * b[k], 0);
  const apply = (matrix, vector) => Float64Array.from(matrix, (row) => dot(row, vector));
  const times = (a, b) => a.map((row) => Float64Array.from(b[0], (_, j) => row.reduce((sum, value, k) => sum + value * b[k][j], 0)));

  // Σ f fᵀ, Σ f y and the number of pairs.
  function moments(features, labels) {
    const dim = features[0]?.length ?? 1, gram = zeros(dim, dim), cross = new Float64Array(dim);
    features.forEach((feature, index) => {
      for (let i = 0; i < dim; i++) {
        cross[i] += feature[i] * labels[index];
        for (let j = 0; j < dim; j++) gram[i][j] += feature[i] * feature[j];
      }
    });
    return {gram, cross, count: features.length, spectrum: eigen(gram)};
  }

  // Eigenvalues and eigenvectors of a symmetric matrix by Jacobi's rotations.
  function eigen(matrix) {
    const dim = matrix.length, a = matrix.map((row) => Float64Array.from(row)), vectors = zeros(dim, dim);
    for (let k = 0; k < dim; k++) vectors[k][k] = 1;
    for (let sweep = 0; sweep < 60; sweep++) {
      let off = 0;
      for (let p = 0; p < dim; p++) for (let q = p + 1; q < dim; q++) off += a[p][q] ** 2;
      if (off < 1e-300) break;
      for (let p = 0; p < dim; p++) for (let q = p + 1; q < dim; q++) turn(a, vectors, p, q);
    }
    const values = Float64Array.from(a, (row, k) => row[k]), largest = Math.max(...values);
    return {values, vectors, largest, kept: values.map((value) => (value > dim * 2.3e-16 * largest && value > 0 ? 1 : 0))};
  }

  function turn(a, vectors, p, q) {
    if (a[p][q] === 0) return;
    const theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
    const t = (theta >= 0 ? 1 : -1) / (Math.abs(theta) + Math.sqrt(theta * theta + 1));
    const c = 1 / Math.sqrt(t * t + 1), s = t * c;
    for (let k = 0; k < a.length; k++) [a[k][p], a[k][q]] = [c * a[k][p] - s * a[k][q], s * a[k][p] + c * a[k][q]];
    for (let k = 0; k < a.length; k++) [a[p][k], a[q][k]] = [c * a[p][k] - s * a[q][k], s * a[p][k] + c * a[q][k]];
    for (const row of vectors) [row[p], row[q]] = [c * row[p] - s * row[q], s * row[p] + c * row[q]];
  }

  // The least-squares solution of smallest norm.
  function leastSquares({cross, spectrum: {values, vectors, kept}}) {
    const weights = new Float64Array(cross.length);
    values.forEach((value, j) => {
      if (!kept[j]) return;
      let along = 0;
      for (let k = 0; k < cross.length; k++) along += vectors[k][j] * cross[k];
      for (let k = 0; k < cross.length; k++) weights[k] += (vectors[k][j] * along) / value;
    });
    return weights;
  }

  // w ← w - η (∇L(w) + λ w) + β (w - the w before), with L = 1/(2n) Σ (y - <w, f>)², from w = 0.
  function* descent({gram, cross, count, spectrum}, {step_size: chosen = null, momentum = 0, penalty = 0}) {
    const pairs = Math.max(count, 1), eta = chosen ?? (1.8 * pairs) / (spectrum.largest || 1);
    let weights = new Float64Array(cross.length), before = weights;
    while (true) {
      const product = apply(gram, weights), now = weights, last = before;
      weights = now.map((w, k) => w - eta * ((product[k] - cross[k]) / pairs + penalty * w) + momentum * (w - last[k]));
      before = now;
      yield weights;
    }
  }

  // M ← 2M - M S M from M = αS, w = M Σ y f; each step is projected onto the span of the pairs.
  function* newton({gram, cross, spectrum: {largest, vectors, kept}}, {alpha = null}) {
    const scale = alpha ?? 1 / (largest || 1) ** 2, dim = cross.length;
    let inverse = gram.map((row) => row.map((value) => scale * value));
    const full = kept.every(Boolean), span = zeros(dim, dim);
    for (let i = 0; i < dim; i++) for (let j = 0; j < dim; j++) {
      for (let k = 0; k < dim; k++) if (kept[k]) span[i][j] += vectors[i][k] * vectors[j][k];
    }
    while (true) {
      const product = times(times(inverse, gram), inverse);
      inverse = inverse.map((row, i) => row.map((value, j) => 2 * value - product[i][j]));
      if (!full) inverse = times(span, inverse);
      yield apply(inverse, cross);
    }
  }

  const METHODS = {
    gradient_descent: {label: "gradient descent", iterate: descent},
    heavy_ball: {label: "gradient descent with momentum", iterate: descent},
    ridge: {label: "gradient descent on the ridge loss", iterate: descent},
    newton: {label: "Newton's method", iterate: newton},
  };

  // The answers of a method to every question after steps 1..steps.
  function solve(method, problem, constants, questions, steps) {
    const iterates = METHODS[method].iterate(problem, constants ?? {}), answers = [];
    for (let step = 0; step < steps; step++) {
      const weights = iterates.next().value;
      answers.push(Float64Array.from(questions, (question) => dot(question, weights)));
    }
    return answers;
  }

  // A representation of layers `x · weight`, each followed by a leaky ReLU; none is the identity.
  function featuresOf(representation) {
    if (!representation) return (x) => Float64Array.from(x);
    return (x) => representation.weights.reduce((inputs, weight) =>
      Float64Array.from(weight[0], (_, column) => {
        const value = inputs.reduce((sum, input, row) => sum + input * weight[row][column], 0);
        return value > 0 ? value : representation.slope * value;
      }), Float64Array.from(x));
  }

  // Standard normal numbers that a seed decides.
  function normals(seed) {
    let state = (seed * 2654435761 + 12345) >>> 0;
    const uniform = () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
      mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
      return (((mixed ^ (mixed >>> 14)) >>> 0) + 0.5) / 4294967296;
    };
    return () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
  }

  // Coordinates of points in their two principal directions, and the share of variance along each.
  function principal(points) {
    const width = points[0].length, mean = new Float64Array(width);
    for (const point of points) for (let k = 0; k < width; k++) mean[k] += point[k] / points.length;
    const centred = points.map((point) => Float64Array.from(point, (value, k) => value - mean[k]));
    const total = centred.reduce((sum, point) => sum + dot(point, point), 0) || 1;
    const shares = [], columns = [];
    for (let axis = 0; axis < 2; axis++) {
      let direction = centred.reduce((best, point) => (dot(point, point) > dot(best, best) ? point : best));
      for (let round = 0; round < 60; round++) {
        const next = new Float64Array(width);
        for (const point of centred) {
          const along = dot(point, direction);
          for (let k = 0; k < width; k++) next[k] += along * point[k];
        }
        const size = Math.sqrt(dot(next, next)) || 1;
        direction = next.map((value) => value / size);
      }
      const along = centred.map((point) => dot(point, direction));
      columns.push(along);
      shares.push(along.reduce((sum, value) => sum + value * value, 0) / total);
      centred.forEach((point, index) => { for (let k = 0; k < width; k++) point[k] -= along[index] * direction[k]; });
    }
    return {points: columns[0].map((first, index) => [first, columns[1][index]]), shares};
  }

  Object.assign(algoformer, {moments, leastSquares, solve, featuresOf, normals, principal, METHODS, dot});
})((self.algoformer = self.algoformer || {}));
