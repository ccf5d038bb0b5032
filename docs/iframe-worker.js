// Search in pages that are opened without a server: browsers start no Worker from a file, so a frame takes its place.
if (location.protocol === "file:")
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => {
        const copy = structuredClone(data);
        setTimeout(() => this.onmessage?.({ data: copy }));
      };
      const script = inside.document.createElement("script");
      script.src = url;
      this.ready = new Promise((resolve) => script.addEventListener("load", resolve));
      script.addEventListener("error", (event) => this.onerror?.(event));
      inside.document.body.append(script);
    }
    postMessage(data) {
      const copy = structuredClone(data);
      this.ready.then(() => this.frame.contentWindow?.onmessage({ data: copy }));
    }
    terminate() {
      this.frame.remove();
    }
  };
