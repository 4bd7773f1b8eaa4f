// Answers on their way. An answer is kept in this browser from the key press until the server has acknowledged it,
// and erased at that moment: it says which group a person belongs to. Each lies under a key of its own, so that two
// tabs never overwrite each other, and carries an idempotency key, so that sending one twice records it once.
// Where the browser refuses storage, the queue lives in memory and `durable` says so.

const PREFIX = "apod.outbox.";

function storage() {
  try {
    localStorage.setItem("apod.probe", "1");
    localStorage.removeItem("apod.probe");
    return localStorage;
  } catch {
    return null;
  }
}

/** How many answers wait in this browser, whoever gave them. */
export function waitingHere() {
  return Object.keys(storage() ?? {}).filter((name) => name.startsWith(PREFIX)).length;
}

/** A key no other tab, person or day will make. */
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export class Outbox {
  /** `owner` tells apart what two people of one browser, or two campaigns, have waiting. */
  constructor(owner) {
    this.prefix = `${PREFIX}${owner}.`;
    this.store = storage();
    this.durable = this.store !== null;
    this.memory = new Map();
  }

  /** Keep an act until it is acknowledged: {path, body, ...}. Returns it with its key and time. */
  put(act) {
    const kept = { ...act, key: newKey(), at: Date.now(), order: this.#nextOrder(), tried: 0 };
    this.#write(kept);
    return kept;
  }

  /** Everything that waits, in the order it was done. */
  waiting() {
    const found = [...this.memory.values()];
    if (this.store) {
      for (const name of Object.keys(this.store)) {
        if (name.startsWith(this.prefix)) found.push(JSON.parse(this.store.getItem(name)));
      }
    }
    return found.filter(Boolean).sort((one, other) => one.order - other.order);
  }

  /** Note that sending was tried: from now on the server may know it. */
  tried(act) {
    if (this.has(act)) this.#write({ ...act, tried: act.tried + 1 });
  }

  /** Whether it still waits; another tab may have delivered it. */
  has(act) {
    return this.memory.has(act.key) || (this.store?.getItem(this.prefix + act.key) ?? null) !== null;
  }

  /** Erase: acknowledged, or taken back before it was sent. */
  erase(act) {
    this.memory.delete(act.key);
    this.store?.removeItem(this.prefix + act.key);
  }

  #write(act) {
    try {
      if (!this.store) throw new Error("memory only");
      this.store.setItem(this.prefix + act.key, JSON.stringify(act));
    } catch {
      this.durable = false; // storage is off or full
      this.memory.set(act.key, act);
    }
  }

  #nextOrder() {
    const last = this.waiting().at(-1);
    return Math.max(Date.now(), last ? last.order + 1 : 0); // a clock that jumps back changes no order
  }
}
