// Rates and times as the figures show them.

export const seconds = ms => Math.round(ms) / 1000;
export const perSecond = (jobs, ms) => Math.round((jobs * 100_000) / ms) / 100;
