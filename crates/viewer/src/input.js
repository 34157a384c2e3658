// Handles keys, pointer and wheel on the lanes. A plain wheel scrolls the page until the lanes have the focus.

const WALKS = new Set(['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'Home', 'End']);

export function bindKeys(lanes) {
  lanes.field.addEventListener('keydown', event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (press(lanes, event)) event.preventDefault();
  });
}

function press(lanes, { key, shiftKey }) {
  const { view } = lanes;
  if (key === '+' || key === '=') lanes.zoom(1 / 1.4, lanes.pick?.t0);
  else if (key === '-') lanes.zoom(1.4, lanes.pick?.t0);
  else if (key === '0') lanes.fit();
  else if (key === 'p' || key === 'P') lanes.showProof();
  else if (key === 'Escape') {
    lanes.cross = null;
    lanes.choose(null);
  } else if (shiftKey && key === 'ArrowLeft') lanes.pan(-view.span * 0.15);
  else if (shiftKey && key === 'ArrowRight') lanes.pan(view.span * 0.15);
  else if (WALKS.has(key)) lanes.walk(key);
  else return false;
  return true;
}

export function bindPointer(lanes) {
  const { field, canvas, view } = lanes;
  const down = new Map();
  let drag = null;
  let pinch = null;
  const place = event => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  field.addEventListener('pointerdown', event => {
    const [x] = place(event);
    down.set(event.pointerId, x);
    field.focus({ preventScroll: true });
    if (down.size === 2) {
      const [a, b] = [...down.values()];
      pinch = { apart: Math.abs(a - b) || 1, from: view.from, to: view.to, around: view.t((a + b) / 2) };
      drag = null;
      return;
    }
    drag = { x, from: view.from, to: view.to, moved: false };
    field.setPointerCapture(event.pointerId);
  });

  field.addEventListener('pointermove', event => {
    const [x, y] = place(event);
    if (down.has(event.pointerId)) down.set(event.pointerId, x);
    if (pinch && down.size === 2) {
      const [a, b] = [...down.values()];
      const factor = pinch.apart / (Math.abs(a - b) || 1);
      lanes.frame(pinch.around - (pinch.around - pinch.from) * factor, pinch.around + (pinch.to - pinch.around) * factor);
      return;
    }
    if (drag && Math.abs(x - drag.x) > 4) {
      drag.moved = true;
      field.classList.add('grab');
    }
    if (drag?.moved) {
      const us = ((drag.x - x) * (drag.to - drag.from)) / (view.right - view.left);
      lanes.frame(drag.from + us, drag.to + us);
      lanes.showTip(null);
      return;
    }
    if (event.pointerType === 'touch') return;
    lanes.cross = x;
    lanes.hover = lanes.at(x, y);
    lanes.showTip(lanes.hover, x, y);
    lanes.draw();
  });

  const up = event => {
    down.delete(event.pointerId);
    pinch = null;
    if (drag && !drag.moved && event.type === 'pointerup') {
      const [x, y] = place(event);
      const item = lanes.at(x, y);
      lanes.cross = x;
      lanes.choose(item);
      lanes.showTip(item, x, y);
    }
    drag = null;
    field.classList.remove('grab');
  };
  field.addEventListener('pointerup', up);
  field.addEventListener('pointercancel', up);
  field.addEventListener('pointerleave', () => {
    if (drag) return;
    lanes.cross = lanes.hover = null;
    lanes.showTip(null);
    lanes.draw();
  });
  field.addEventListener('blur', () => lanes.showTip(null));
  field.addEventListener('dblclick', event => lanes.zoom(0.4, view.t(place(event)[0])));
  field.addEventListener('wheel', event => wheel(lanes, event, place(event)[0]), { passive: false });
}

function wheel(lanes, event, x) {
  const { view, field, hint } = lanes;
  if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
    event.preventDefault();
    lanes.pan(((event.deltaX || event.deltaY) * view.span) / view.width);
  } else if (event.ctrlKey || event.metaKey || document.activeElement === field) {
    event.preventDefault();
    lanes.zoom(Math.exp(event.deltaY * (event.ctrlKey ? 0.006 : 0.0018)), view.t(x));
  } else {
    hint.classList.add('on');
    clearTimeout(lanes.hintTimer);
    lanes.hintTimer = setTimeout(() => hint.classList.remove('on'), 1100);
  }
}
