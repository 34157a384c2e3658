// Light and dark theme: the system decides until the user presses the button.

import { $ } from './dom.js';

const KEY = 'fencepost-theme';

function remembered() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function remember(theme) {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // A page that was opened from a file may have no storage; then the choice lasts as long as the page.
  }
}

export function startTheme() {
  const root = document.documentElement;
  const system = matchMedia('(prefers-color-scheme: dark)');
  const button = $('#theme');
  let chosen = remembered();
  const apply = () => {
    const theme = chosen ?? (system.matches ? 'dark' : 'light');
    const other = theme === 'dark' ? 'Light' : 'Dark';
    root.dataset.theme = theme;
    button.textContent = other;
    button.setAttribute('aria-label', `Switch to the ${other.toLowerCase()} theme`);
    dispatchEvent(new Event('themechange'));
  };
  system.addEventListener('change', apply);
  button.addEventListener('click', () => {
    chosen = root.dataset.theme === 'dark' ? 'light' : 'dark';
    remember(chosen);
    apply();
  });
  apply();
}
