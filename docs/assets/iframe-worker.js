// Browsers start no worker for a page that was opened from a disk (file://). There the site's search runs in a hidden
// frame of the page instead: the same script, and messages to and from it.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.documentElement.appendChild(this.frame);
      const page = this.frame.contentDocument;
      page.open();
      page.write("<!doctype html><html><body></body></html>");
      page.close();
      // What the script posts, as a worker does, comes to the page.
      this.frame.contentWindow.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = page.createElement("script");
      script.src = url;
      this.ready = new Promise((loaded) => (script.onload = loaded));
      page.body.appendChild(script);
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}
