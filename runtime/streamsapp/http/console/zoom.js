// A drawing that can be made larger and smaller: by buttons, keys (+ - 0), the wheel with Ctrl, and two fingers.
//
// It stays in a window of its own, which scrolls; the place under the pointer stays where it is.

import { element, setText } from "./dom.js";

const LEAST = 0.1, READ = 0.65, MOST = 3, STEP = 1.25;

export class Zoom {
  // `drawing` is as large as `size` says, in rem.
  constructor(place, drawing, size) {
    [this.drawing, this.size, this.scale, this.fitted] = [drawing, size, 1, true];
    const button = (name, words, action) => element("button", { type: "button", title: words, "aria-label": words, onclick: action }, name);
    this.told = element("span", { class: "faint", role: "status" });
    this.sheet = element("div", { class: "sheet" }, drawing);
    this.window = element("div", { class: "window", tabindex: "0", role: "group", "aria-label": "The topology as a graph; + and - change its size, 0 fits it" }, this.sheet);
    place.replaceChildren(
      element("div", { class: "zoom", role: "group", "aria-label": "Size of the graph" },
        button("+", "Larger", () => this.to(this.scale * STEP)), button("−", "Smaller", () => this.to(this.scale / STEP)),
        button("Fit", "Fit the graph into its window", () => this.fit()), button("1:1", "Size of the text", () => this.to(1)),
        this.told, element("span", { class: "faint hint" }, "Choose a node to see its figures and its last records.")),
      this.window);
    this.window.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.window.addEventListener("keydown", (event) => this.key(event));
    this.window.addEventListener("touchstart", (event) => { this.apart = distance(event); }, { passive: true });
    this.window.addEventListener("touchmove", (event) => this.pinch(event), { passive: false });
    this.observer = new ResizeObserver(() => { if (this.fitted) this.begin(); });
    this.observer.observe(this.window);
    this.begin();
  }

  end() {
    this.observer.disconnect();
  }

  // As wide as its window, if its names can be read then.
  begin() {
    if (!this.window.clientWidth) return; // it is not seen
    this.window.style.maxHeight = `${this.height}px`;
    this.set(Math.min(1, Math.max(READ, this.fitting("width", this.window.clientWidth))));
  }

  // All of it is seen.
  fit() {
    const whole = Math.min(this.fitting("width", this.window.clientWidth), this.fitting("height", this.height));
    this.set(Math.min(1, Math.max(LEAST, whole)));
    this.fitted = false;
  }

  get height() {
    return Math.max(320, innerHeight - 140);
  }

  fitting(side, room) {
    return (room - 10) / (this.size[side] * parseFloat(getComputedStyle(document.documentElement).fontSize));
  }

  // The point of the window at x and y, its middle if there is none, stays where it is.
  to(scale, x = this.window.clientWidth / 2, y = this.window.clientHeight / 2) {
    const before = this.scale;
    const [left, top] = [this.window.scrollLeft + x, this.window.scrollTop + y];
    this.set(Math.min(MOST, Math.max(LEAST, scale)));
    this.fitted = false;
    this.window.scrollTo((left * this.scale) / before - x, (top * this.scale) / before - y);
  }

  set(scale) {
    this.scale = scale;
    this.drawing.style.transform = `scale(${scale})`;
    this.sheet.style.width = `calc(${this.size.width * scale}rem + 8px)`;
    this.sheet.style.height = `calc(${this.size.height * scale}rem + 8px)`;
    setText(this.told, `${Math.round(100 * scale)} %`);
  }

  wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
    event.preventDefault();
    const { left, top } = this.window.getBoundingClientRect();
    this.to(this.scale * Math.exp(-Math.max(-50, Math.min(50, event.deltaY)) / 200), event.clientX - left, event.clientY - top);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const wanted = { "+": this.scale * STEP, "=": this.scale * STEP, "-": this.scale / STEP }[event.key];
    if (wanted) this.to(wanted);
    else if (event.key === "0") this.fit();
    else return;
    event.preventDefault();
  }

  pinch(event) {
    const apart = distance(event);
    if (apart === null || !this.apart) return;
    event.preventDefault();
    const { left, top } = this.window.getBoundingClientRect();
    const middle = (side) => (event.touches[0][side] + event.touches[1][side]) / 2;
    this.to((this.scale * apart) / this.apart, middle("clientX") - left, middle("clientY") - top);
    this.apart = apart;
  }
}

function distance({ touches }) {
  return touches.length === 2 ? Math.hypot(touches[0].clientX - touches[1].clientX, touches[0].clientY - touches[1].clientY) : null;
}
