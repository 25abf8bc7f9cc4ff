// A limit on how many handlers run at once, in the order of their calls.

export function limited(handle, slots) {
  const waiting = [];
  let free = slots;
  return async args => {
    if (free > 0) free--;
    else await new Promise(resolve => waiting.push(resolve)); // takes over the slot of one that ends
    try {
      await handle(args);
    } finally {
      if (waiting.length > 0) waiting.shift()();
      else free++;
    }
  };
}
