// Percentiles by nearest rank, of latencies in microseconds.

export function latencyFigures(samples) {
  const sorted = Float64Array.from(samples).sort();
  const at = p => Math.round(sorted[Math.min(sorted.length - 1, Math.ceil(p * sorted.length) - 1)]);
  const sum = sorted.reduce((a, b) => a + b, 0);
  return {
    samples: sorted.length,
    average_us: Math.round(sum / sorted.length),
    p50_us: at(0.5),
    p90_us: at(0.9),
    p95_us: at(0.95),
    p99_us: at(0.99),
    p999_us: at(0.999),
    max_us: Math.round(sorted[sorted.length - 1]),
  };
}
