// The stream of messages. Reconnects until it succeeds, and treats a silent stream as broken.

const SILENCE_MS = 8000;
const AGAIN_MS = 2000;

export class Stream {
  constructor(path, handlers, onLink) {
    Object.assign(this, { path, handlers, onLink, heard: performance.now() });
    this.open();
    setInterval(() => this.check(), AGAIN_MS);
  }

  open() {
    this.source?.close();
    this.source = new EventSource(this.path);
    this.source.addEventListener('error', () => this.onLink(false));
    for (const [name, handle] of Object.entries(this.handlers)) {
      this.source.addEventListener(name, event => {
        this.heard = performance.now();
        this.onLink(true);
        handle(JSON.parse(event.data));
      });
    }
  }

  // Browsers do not reconnect after a refusal, and do not notice when the other side vanishes.
  check() {
    const isSilent = performance.now() - this.heard > SILENCE_MS;
    if (isSilent) this.onLink(false);
    if (!isSilent && this.source.readyState !== EventSource.CLOSED) return;
    this.heard = performance.now() - SILENCE_MS + AGAIN_MS * 2;
    this.open();
  }
}
