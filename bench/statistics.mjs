/** Figures from many measurements. */

export function median(values) {
  const sorted = values.toSorted((left, right) => left - right)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}

/** The smallest value that at least `share` of all values do not exceed. */
function percentile(values, share) {
  const sorted = values.toSorted((left, right) => left - right)
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)]
}

export function p99(values) {
  return percentile(values, 0.99)
}

export function worst(values) {
  return Math.max(...values)
}

export function spread(values) {
  return [Math.min(...values), Math.max(...values)]
}
