// Keyed rows: an element is reused as long as its key exists, so that selections and the position of a screen reader are kept.

export class Keyed {
  constructor(place, keyOf, make) {
    this.place = place;
    this.keyOf = keyOf;
    this.make = make;
    this.kept = new Map();
  }

  // `make` returns an element and a function that fills it with an item.
  show(items) {
    const kept = new Map();
    items.forEach((item, at) => {
      const key = this.keyOf(item);
      const row = this.kept.get(key) ?? this.make();
      row.fill(item);
      kept.set(key, row);
      const there = this.place.children[at];
      if (there !== row.element) this.place.insertBefore(row.element, there ?? null);
    });
    for (const [key, row] of this.kept) if (!kept.has(key)) row.element.remove();
    this.kept = kept;
  }
}

// Writes only what has changed, to avoid needless layout.
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
