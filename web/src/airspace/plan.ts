/**
 * The plan: the cloud on its two widest axes, on a plain canvas. Needs no WebGL.
 *
 * The points are written into one ImageData, so that a cloud of 50,000 files costs a few milliseconds a picture.
 */

import type { Point } from "../basic_types";
import { flat, type Cloud, type Fit } from "./cloud";
import { standOnPlan, type Margins } from "./frame";
import type { Palette } from "./palette";
import type { Act, Spot, Stage } from "./stage";

const ZOOM = { least: 0.4, most: 60 };
const STEP = 48;

/** Pixels left free at both ends of each row, so that a point is round. */
function disc(size: number): number[] {
  const r = size / 2;
  return Array.from({ length: size }, (_, row) => Math.round(r - Math.sqrt(Math.max(0, r * r - (row + 0.5 - r) ** 2))));
}

export class Plan implements Stage {
  private pen: CanvasRenderingContext2D;
  private width = 1;
  private height = 1;
  private ratio = 1;
  private fit: Fit | null = null;
  private uv = new Float32Array(0);
  private colours = new Uint32Array(0);
  private image: ImageData | null = null;
  private x = 0;
  private y = 0;
  private zoom = 1;
  /** The zoom at which all is seen, which may be beyond the usual bounds. */
  private home = 1;
  touched = false;
  private readonly off = new AbortController();
  private readonly fingers = new Map<number, { x: number; y: number }>();

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly surface: HTMLElement,
    private readonly changed: () => void,
  ) {
    this.pen = canvas.getContext("2d")!;
    const on = { signal: this.off.signal };
    surface.addEventListener("pointerdown", (e) => this.down(e), on);
    surface.addEventListener("pointermove", (e) => this.move(e), on);
    for (const name of ["pointerup", "pointercancel"] as const)
      surface.addEventListener(name, (e) => this.fingers.delete(e.pointerId), on);
    surface.addEventListener("wheel", (e) => this.wheel(e), { ...on, passive: false });
    surface.style.touchAction = "none";
  }

  setCloud(cloud: Cloud, fit: Fit, palette: Palette): void {
    const n = cloud.paths.length;
    this.fit = fit;
    this.uv = new Float32Array(n * 2);
    this.colours = new Uint32Array(n);
    // A canvas has its bytes in the order R, G, B, A, which is what a little-endian word holds from its low end.
    const words = cloud.folders.map((folder) => {
      const [r, g, b] = palette.folder(folder.hue);
      return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
    });
    for (let i = 0; i < n; i++) {
      this.uv.set(flat(fit, cloud.xyz[i * 3]!, cloud.xyz[i * 3 + 1]!, cloud.xyz[i * 3 + 2]!), i * 2);
      this.colours[i] = words[cloud.folder[i]!]!;
    }
  }

  resize(width: number, height: number): void {
    this.ratio = Math.min(2, devicePixelRatio || 1);
    this.width = width;
    this.height = height;
    this.canvas.width = Math.max(1, Math.round(width * this.ratio));
    this.canvas.height = Math.max(1, Math.round(height * this.ratio));
    this.image = null;
  }

  /** CSS pixels for one unit of the fit. */
  private get unit(): number {
    return (Math.min(this.width, this.height) / 2.15) * this.zoom;
  }

  draw(): void {
    const { width, height } = this.canvas;
    this.image ??= this.pen.createImageData(width, height);
    const words = new Uint32Array(this.image.data.buffer);
    words.fill(0);
    const n = this.colours.length;
    const unit = this.unit * this.ratio;
    const left = width / 2 - this.x * unit;
    const top = height / 2 + this.y * unit;
    // Fewer files, bigger points; zooming in makes them grow a little.
    const size = Math.max(1, Math.round(this.ratio * Math.min(6, (n > 20_000 ? 1 : n > 3000 ? 2 : 4) * Math.sqrt(Math.max(1, this.zoom)))));
    const rows = disc(size);
    for (let i = 0; i < n; i++) {
      const x = Math.round(left + this.uv[i * 2]! * unit - size / 2);
      const y = Math.round(top - this.uv[i * 2 + 1]! * unit - size / 2);
      if (x < 0 || y < 0 || x + size > width || y + size > height) continue;
      const colour = this.colours[i]!;
      for (let dy = 0; dy < size; dy++) {
        const at = (y + dy) * width + x;
        words.fill(colour, at + rows[dy]!, at + size - rows[dy]!);
      }
    }
    this.pen.putImageData(this.image, 0, 0);
  }

  project(x: number, y: number, z: number, out: Spot): Spot {
    const [u, v] = this.fit ? flat(this.fit, x, y, z) : [0, 0];
    out.x = this.width / 2 + (u - this.x) * this.unit;
    out.y = this.height / 2 - (v - this.y) * this.unit;
    out.near = 1;
    out.seen = true;
    return out;
  }

  act(act: Act): void {
    if (act === "in" || act === "out") return this.zoomAt(this.width / 2, this.height / 2, act === "in" ? 1.25 : 0.8);
    this.pan(act === "left" ? STEP : act === "right" ? -STEP : 0, act === "up" ? STEP : act === "down" ? -STEP : 0);
  }

  show(points: readonly Point[], least: number, margins: Margins): void {
    const fit = this.fit;
    if (!fit || !points.length) return;
    const at = standOnPlan(points.map((p) => flat(fit, p[0], p[1], p[2])), Math.max(least * fit.scale, 1e-6), this.width, this.height, margins);
    this.zoom = this.home = at.unit / (this.unit / this.zoom);
    this.x = at.x;
    this.y = at.y;
    this.touched = false;
    this.changed();
  }

  dispose(): void {
    this.off.abort();
    this.image = null;
    this.canvas.width = this.canvas.height = 1;
  }

  private pan(dx: number, dy: number): void {
    this.touched ||= dx !== 0 || dy !== 0;
    this.x -= dx / this.unit;
    this.y += dy / this.unit;
    this.changed();
  }

  /** The point below the pointer stays where it is. */
  private zoomAt(x: number, y: number, factor: number): void {
    const before = this.unit;
    this.touched = true;
    this.zoom = Math.min(Math.max(ZOOM.most, this.home), Math.max(Math.min(ZOOM.least, this.home), this.zoom * factor));
    const part = 1 / before - 1 / this.unit;
    this.x += (x - this.width / 2) * part;
    this.y -= (y - this.height / 2) * part;
    this.changed();
  }

  private here(event: MouseEvent): { x: number; y: number } {
    const box = this.surface.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  private down(event: PointerEvent): void {
    if ((event.target as Element).closest("button")) return;
    this.surface.setPointerCapture(event.pointerId);
    this.fingers.set(event.pointerId, this.here(event));
  }

  private move(event: PointerEvent): void {
    const before = this.fingers.get(event.pointerId);
    if (!before) return;
    const now = this.here(event);
    const rest = [...this.fingers].find(([id]) => id !== event.pointerId)?.[1];
    this.fingers.set(event.pointerId, now);
    if (!rest) return this.pan(now.x - before.x, now.y - before.y);
    const span = (p: { x: number; y: number }): number => Math.hypot(p.x - rest.x, p.y - rest.y);
    this.pan((now.x - before.x) / 2, (now.y - before.y) / 2);
    if (span(before) > 4) this.zoomAt((now.x + rest.x) / 2, (now.y + rest.y) / 2, span(now) / span(before));
  }

  private wheel(event: WheelEvent): void {
    event.preventDefault();
    const { x, y } = this.here(event);
    this.zoomAt(x, y, Math.exp(-Math.max(-60, Math.min(60, event.deltaY)) / 220));
  }
}
