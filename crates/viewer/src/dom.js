// Creates DOM elements. Text is always inserted as text, never as markup.

export const $ = (selector, root = document) => root.querySelector(selector);

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, '');
    else if (value != null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat(3).filter(child => child != null && child !== false));
  return element;
}

const SVG = 'http://www.w3.org/2000/svg';

export function s(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) if (value != null) element.setAttribute(name, value);
  element.append(...children.flat(2).filter(child => child != null));
  return element;
}

// Shows a verdict as a glyph and a word, so that it does not depend on its colour.
const GLYPHS = {
  HELD: [['circle', { cx: 8, cy: 8, r: 6.6, class: 'line' }], ['path', { d: 'M5 8.3l2.1 2.1L11 6', class: 'line bold' }]],
  BROKEN: [['path', { d: 'M8 .6L15.4 8 8 15.4.6 8z', class: 'full' }], ['path', { d: 'M5.6 5.6l4.8 4.8M10.4 5.6l-4.8 4.8', class: 'line bold cut' }]],
  STUCK: [['path', { d: 'M3 1.2h10M3 14.8h10M4 1.5c0 4 8 4 8 0M4 14.5c0-5 8-5 8 0M4 1.5C4 6 8 6.4 8 8s-4 2-4 6.5M12 1.5C12 6 8 6.4 8 8s4 2 4 6.5', class: 'line' }]],
  INCONCLUSIVE: [['circle', { cx: 8, cy: 8, r: 6.6, class: 'line dashed' }], ['path', { d: 'M6.2 6.3c.2-2.4 3.8-2.1 3.6.1-.1 1.3-1.8 1.3-1.8 2.6M8 11.2v.1', class: 'line' }]],
  'N/A': [['path', { d: 'M5 8h6', class: 'line' }]],
};

export const glyph = outcome =>
  s('svg', { viewBox: '0 0 16 16', class: 'glyph', 'aria-hidden': 'true', focusable: 'false' }, GLYPHS[outcome].map(([tag, attributes]) => s(tag, attributes)));

export function verdictTag(outcome, { word = true, note } = {}) {
  const text = h('span', { class: word ? 'w' : 'w sr' }, outcome === 'N/A' ? 'n/a' : outcome, note ? h('small', {}, note) : null);
  return h('span', { class: `v v-${outcome.replace('/', '')}` }, glyph(outcome), text);
}

// A command that can be copied: never truncated, and wrapped only between words.
export function commandBox(text) {
  const code = h('code', {}, text.split(' ').flatMap((word, at) => [at ? ' ' : '', h('span', { class: 'nowrap' }, word)]));
  const button = h('button', { class: 'ghost copy', type: 'button', 'aria-label': 'Copy the command' }, 'Copy');
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = 'Copied';
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = 'Selected';
    }
    setTimeout(() => { button.textContent = 'Copy'; }, 1400);
  });
  return h('div', { class: 'cmd' }, code, button);
}

export const wantsStillness = () => matchMedia('(prefers-reduced-motion: reduce)').matches;

export const bringIntoView = (element, block = 'start') =>
  element.scrollIntoView({ block, behavior: wantsStillness() ? 'auto' : 'smooth' });
