// Drawing tools: colours of the theme, patterns, text, and space for labels.

const COLOURS = ['paper', 'panel', 'sunk', 'ink', 'ink-2', 'ink-3', 'line', 'line-2', 'hold', 'on-hold', 'hold-soft', 'wait', 'pause', 'bad', 'bad-fill', 'bad-soft', 'on-bad', 'fault', 'fault-fill', 'fault-soft', 'ok', 'stuck', 'stuck-soft', 'link'];

export class Palette {
  constructor(canvas) {
    this.canvas = canvas;
    this.g = canvas.getContext('2d');
    this.refresh();
  }

  refresh() {
    const style = getComputedStyle(document.documentElement);
    this.c = Object.fromEntries(COLOURS.map(name => [name, style.getPropertyValue(`--${name}`).trim()]));
    this.sans = style.getPropertyValue('--sans');
    this.patterns = {};
  }

  // Clears the canvas and fits it to its element, at the resolution of the screen.
  size(width, height, resolution) {
    const { canvas, g } = this;
    const [w, h] = [Math.round(width * resolution), Math.round(height * resolution)];
    if (canvas.width !== w || canvas.height !== h) {
      canvas.width = w;
      canvas.height = h;
      canvas.style.height = `${height}px`;
    }
    g.setTransform(resolution, 0, 0, resolution, 0, 0);
    g.clearRect(0, 0, width, height);
    g.textBaseline = 'middle';
  }

  font(size, weight = 400) {
    this.g.font = `${weight} ${size}px ${this.sans}`;
  }

  text(text, x, y, colour, align = 'left') {
    this.g.fillStyle = colour;
    this.g.textAlign = align;
    this.g.fillText(text, x, y);
  }

  width(text) {
    return this.g.measureText(text).width;
  }

  vertical(x, from, to) {
    const { g } = this;
    g.beginPath();
    g.moveTo(Math.round(x) + 0.5, from);
    g.lineTo(Math.round(x) + 0.5, to);
    g.stroke();
  }

  horizontal(y, from, to) {
    const { g } = this;
    g.beginPath();
    g.moveTo(from, Math.round(y) - 0.5);
    g.lineTo(to, Math.round(y) - 0.5);
    g.stroke();
  }

  dashed(pattern, draw) {
    this.g.setLineDash(pattern);
    draw();
    this.g.setLineDash([]);
  }

  cross(x, y, r) {
    const { g } = this;
    g.beginPath();
    g.moveTo(x - r, y - r);
    g.lineTo(x + r, y + r);
    g.moveTo(x + r, y - r);
    g.lineTo(x - r, y + r);
    g.stroke();
  }

  clipped(x, y, width, height, draw) {
    const { g } = this;
    g.save();
    g.beginPath();
    g.rect(x, y, width, height);
    g.clip();
    draw();
    g.restore();
  }

  hatch(name, colour, { gap = 6, width = 1.4, background } = {}) {
    this.patterns[name] ??= hatching(this.g, colour, gap, width, background);
    return this.patterns[name];
  }
}

function hatching(g, colour, gap, width, background) {
  const fine = 2;
  const tile = document.createElement('canvas');
  tile.width = tile.height = gap * fine;
  const pen = tile.getContext('2d');
  if (background) {
    pen.fillStyle = background;
    pen.fillRect(0, 0, tile.width, tile.height);
  }
  pen.strokeStyle = colour;
  pen.lineWidth = width * fine;
  pen.beginPath();
  for (const offset of [-1, 0, 1]) {
    pen.moveTo((offset * gap - 1) * fine, (gap + 1) * fine);
    pen.lineTo((offset * gap + gap + 1) * fine, -fine);
  }
  pen.stroke();
  const pattern = g.createPattern(tile, 'repeat');
  pattern.setTransform(new DOMMatrix().scale(1 / fine));
  return pattern;
}

// Keeps track of occupied areas. Marks of the proof reserve theirs first, so that no label covers them.
export class Room {
  constructor() {
    this.taken = [];
  }

  reserve(x, y, width, height) {
    this.taken.push([x, y, x + width, y + height]);
  }

  isFree(x, y, width, height) {
    return !this.taken.some(([a, b, c, d]) => x < c && x + width > a && y < d && y + height > b);
  }

  // Returns the first of several texts, from long to short, that fits between two ends, and reserves its area.
  fit(palette, wordings, from, to, y, height) {
    for (const text of wordings) {
      const width = palette.width(text);
      if (to - from >= width && this.isFree(from - 2, y, width + 4, height)) {
        this.reserve(from - 2, y, width + 4, height);
        return { text, width };
      }
    }
    return null;
  }
}
