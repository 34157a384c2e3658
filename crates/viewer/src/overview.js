// Draws the overview strip of the whole run, with the current view, the faults and the proof.

const OVERVIEW_HEIGHT = 26;

export class Overview {
  constructor(lanes) {
    this.lanes = lanes;
    this.canvas = lanes.mini;
    this.bind();
  }

  forget() {
    this.picture = null;
  }

  scale() {
    const { view } = this.lanes;
    const [low, high] = [-view.end * 0.03, view.end * 1.05];
    const width = view.right - view.left;
    return {
      x: t => view.left + ((t - low) / (high - low)) * width,
      t: x => low + ((x - view.left) / width) * (high - low),
    };
  }

  draw(resolution) {
    const { lanes, canvas } = this;
    const { view, palette, model } = lanes;
    const { c } = palette;
    const [w, h] = [Math.round(view.width * resolution), Math.round(OVERVIEW_HEIGHT * resolution)];
    if (canvas.width !== w || canvas.height !== h) {
      canvas.width = w;
      canvas.height = h;
      canvas.style.height = `${OVERVIEW_HEIGHT}px`;
      this.forget();
    }
    if (!this.picture || this.of !== model) {
      this.of = model;
      this.picture = this.render(w, h, resolution);
    }
    const g = canvas.getContext('2d');
    g.setTransform(1, 0, 0, 1, 0, 0);
    g.clearRect(0, 0, w, h);
    if (w && h) g.drawImage(this.picture, 0, 0);
    g.setTransform(resolution, 0, 0, resolution, 0, 0);
    if (view.isWhole) return;
    const { x } = this.scale();
    const [from, to] = [Math.max(view.left, x(view.from)), Math.min(view.right, x(view.to))];
    g.fillStyle = c.paper;
    g.globalAlpha = 0.68;
    g.fillRect(view.left, 0, from - view.left, OVERVIEW_HEIGHT);
    g.fillRect(to, 0, view.right - to, OVERVIEW_HEIGHT);
    g.globalAlpha = 1;
    g.strokeStyle = c['ink-2'];
    g.strokeRect(from + 0.5, 0.5, Math.max(to - from - 1, 2), OVERVIEW_HEIGHT - 1);
  }

  render(w, h, resolution) {
    const { view, palette, model, run } = this.lanes;
    const { c } = palette;
    const { x } = this.scale();
    const picture = document.createElement('canvas');
    [picture.width, picture.height] = [w, h];
    const g = picture.getContext('2d');
    g.setTransform(resolution, 0, 0, resolution, 0, 0);
    g.font = `400 11px ${palette.sans}`;
    g.textBaseline = 'middle';
    g.fillStyle = c['ink-3'];
    g.fillText(view.narrow ? 'all' : 'whole run', 10, OVERVIEW_HEIGHT / 2);
    const bar = (item, top, height, colour) => {
      g.fillStyle = colour;
      g.fillRect(x(item.t0), top, Math.max(x(item.t1) - x(item.t0), 1), height);
    };
    const lanes = model.lanes.length;
    for (const item of [...model.holds, ...model.works]) bar(item, 4 + (item.lane.index / lanes) * 18, Math.max(1, 18 / lanes - 1), c.hold);
    for (const fault of model.faults) bar({ t0: fault.t0, t1: Math.max(fault.t1, fault.t0) }, 0, 3, c['fault-fill']);
    if (model.broken) {
      for (const overlap of model.overlaps) bar(overlap, 23, 3, c['bad-fill']);
      for (const n of run.evidence.map(evidence => evidence.event)) {
        const event = run.byNumber(n);
        if (event) bar({ t0: event.t, t1: event.t }, 21, 5, c['bad-fill']);
      }
    }
    g.strokeStyle = c['line-2'];
    g.beginPath();
    g.moveTo(view.left - 0.5, 0);
    g.lineTo(view.left - 0.5, OVERVIEW_HEIGHT);
    g.stroke();
    return picture;
  }

  bind() {
    let isDown = false;
    const centre = event => {
      const { view } = this.lanes;
      const t = this.scale().t(event.clientX - this.canvas.getBoundingClientRect().left);
      this.lanes.frame(t - view.span / 2, t + view.span / 2);
    };
    this.canvas.addEventListener('pointerdown', event => {
      isDown = true;
      this.canvas.setPointerCapture(event.pointerId);
      centre(event);
    });
    this.canvas.addEventListener('pointermove', event => isDown && centre(event));
    for (const name of ['pointerup', 'pointercancel']) this.canvas.addEventListener(name, () => { isDown = false; });
  }
}
