/**
 * The picture: a stage with the cloud, the ink over it, the labels, and what is under the pointer.
 *
 * Invariant: a frame is drawn because something changed (`stir`), or because something still moves; a picture in
 * which nothing moves asks for no frame.
 */

import type { Picked } from "../state/view";
import type { Point } from "../basic_types";
import { apart } from "./apart";
import { fit, type Cloud, type Fit } from "./cloud";
import { inFrame, margins } from "./frame";
import { drawInk, lineWidth, type Scene } from "./ink";
import { Labels } from "./labels";
import type { Model } from "./model";
import { MOVE_MS, moving, placeOf, towards, type Motion } from "./motion";
import { readPalette, type Palette } from "./palette";
import { Plan } from "./plan";
import { newSpot, type Act, type Spot, type Stage } from "./stage";

export type Mode = "space" | "plan";

export interface Wishes {
  onPick(picked: Picked): void;
  /** The context was taken away, or could not be had: why. */
  onNoSpace(why: string): void;
}

/** Whether WebGL is to be had here without the processor drawing it. */
export function smooth(): boolean {
  const context = document.createElement("canvas").getContext("webgl2", { failIfMajorPerformanceCaveat: true });
  if (!context) return false;
  const named = context.getExtension("WEBGL_debug_renderer_info");
  const renderer = String(context.getParameter(named ? named.UNMASKED_RENDERER_WEBGL : context.RENDERER));
  context.getExtension("WEBGL_lose_context")?.loseContext();
  // Some browsers give the software one without calling it a caveat.
  return !/swiftshader|llvmpipe|softpipe|software|basic render/i.test(renderer);
}

/** Milliseconds that a link glows after it got worse. */
const GLOW_MS = 4800;
/** A marker whose middle is nearer to the edge than this, in CSS pixels, is cut. */
const EDGE = 14;
const REACH = { agent: 15, link: 7, file: 7 };
const KEYS: Readonly<Record<string, Act>> = {
  ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down", "+": "in", "=": "in", "-": "out", _: "out",
};
/** The first fit of this page: leaving the view and coming back does not move the map. */
let firstFit: Fit | null = null;

export class Picture {
  private stage: Stage | null = null;
  private mode: Mode | null = null;
  private cloud: Cloud | null = null;
  private model: Model | null = null;
  private motion: Motion = new Map();
  private palette: Palette;
  private readonly glows = new Map<string, number>();
  private readonly spots = new Map<string, Spot>();
  private readonly ink = document.createElement("canvas");
  private readonly tip = document.createElement("div");
  private readonly labels: Labels;
  private readonly off = new AbortController();
  private readonly watch: ResizeObserver;
  private readonly calm = matchMedia("(prefers-reduced-motion: reduce)");
  private frame = 0;
  /** The camera was placed for the agents that are there; the stage knows its size. */
  private framed = false;
  private sized = false;
  /** Nobody was there then: who comes is a reason to look again. */
  private empty = true;
  private stale = true;
  private hovering = 0;
  private width = 1;
  private height = 1;
  private pressed: { x: number; y: number } | null = null;

  constructor(
    private readonly host: HTMLElement,
    private readonly wishes: Wishes,
  ) {
    this.palette = readPalette(host);
    this.ink.className = "air-ink";
    const box = document.createElement("div");
    box.className = "air-labels";
    this.tip.className = "air-tip";
    this.tip.hidden = true;
    host.append(this.ink, box, this.tip);
    this.labels = new Labels(box, (what) => wishes.onPick(what));
    const on = { signal: this.off.signal };
    // A press on a name is not the beginning of a turn.
    box.addEventListener("pointerdown", (e) => e.stopPropagation(), on);
    host.addEventListener("pointerdown", (e) => (this.pressed = this.here(e)), on);
    host.addEventListener("pointerup", (e) => this.released(e), on);
    host.addEventListener("pointermove", (e) => this.hover(e), on);
    host.addEventListener("pointerleave", () => this.hide(), on);
    host.addEventListener("keydown", (e) => this.key(e), on);
    this.watch = new ResizeObserver(() => this.resize());
    this.watch.observe(host);
  }

  /** Draw as this from now on. Space needs WebGL, and three.js, which is loaded here. */
  async setMode(mode: Mode): Promise<void> {
    if (this.mode === mode) return;
    this.mode = mode;
    let make: ((canvas: HTMLCanvasElement) => Stage) | null = (canvas) => new Plan(canvas, this.host, this.moved);
    if (mode === "space") {
      const Space = await import("./space").then((m) => m.Space, () => null);
      if (this.off.signal.aborted || this.mode !== mode) return;
      make = Space && ((canvas) => new Space(canvas, this.host, this.moved, () => this.wishes.onNoSpace("The graphics context was lost.")));
      if (!make) return this.wishes.onNoSpace("The 3D view could not be loaded; the room may have been updated. Reload the page.");
    }
    const canvas = document.createElement("canvas");
    canvas.className = "air-cloud";
    canvas.dataset.mode = mode;
    this.stage?.dispose();
    this.host.querySelector(".air-cloud")?.remove();
    this.host.prepend(canvas);
    try {
      this.stage = make!(canvas);
    } catch {
      canvas.remove();
      this.stage = null;
      return this.wishes.onNoSpace("This browser has no WebGL.");
    }
    this.framed = this.sized = false;
    if (this.cloud) this.setCloud(this.cloud);
    this.resize();
  }

  setCloud(cloud: Cloud): void {
    this.cloud = cloud;
    const grounded = firstFit !== null;
    if (cloud.paths.length) firstFit ??= fit(cloud.xyz);
    this.stage?.setCloud(cloud, firstFit ?? fit(cloud.xyz), this.palette);
    if (!grounded && firstFit) this.framed = false;
    this.frameAtFirst();
    this.moved();
  }

  /** `glide` = agents move to their new places; else they are there at once. */
  setModel(model: Model, glide: boolean): void {
    const now = performance.now();
    for (const line of model.lines) {
      const before = this.model?.lines.find((l) => l.key === line.key);
      const worse = line.lit && (!before?.lit || (before.level !== line.level && line.level === "resolution"));
      if (worse && this.model && !model.past && !this.calm.matches) this.glows.set(line.key, now);
    }
    const places = new Map(model.markers.map((m): [string, Point] => [m.id, m.at]));
    this.motion = towards(this.motion, places, now, glide && !this.calm.matches ? MOVE_MS : 0);
    this.model = model;
    this.labels.set(model);
    this.frameAtFirst();
    this.stir();
  }

  /** Until the person moves the camera: all agents in the picture. It stands while they are. */
  private frameAtFirst(): void {
    if (!this.stage || !this.model || !this.cloud || this.stage.touched || !this.sized) return;
    const news = !this.framed || (this.empty && this.model.markers.length > 0);
    if (news || this.model.markers.some((marker) => this.outside(marker.at))) this.frameAll();
  }

  private outside(at: Point): boolean {
    const spot = this.stage!.project(at[0], at[1], at[2], newSpot());
    return !spot.seen || spot.x < EDGE || spot.y < EDGE || spot.x > this.width - EDGE || spot.y > this.height - EDGE;
  }

  private frameAll(): void {
    const { stage, model, cloud } = this;
    if (!stage || !model || !cloud) return;
    const file = (i: number): Point => [cloud.xyz[i * 3]!, cloud.xyz[i * 3 + 1]!, cloud.xyz[i * 3 + 2]!];
    const must = model.markers.flatMap((marker) => [marker.at, ...marker.files.map(file)]);
    const { points, least } = inFrame(must, [model.markers.flatMap((marker) => marker.way), cloud.paths.map((_, i) => file(i))]);
    stage.show(points, least, margins(this.width, this.height, this.labels.widest));
    this.framed = true;
    this.empty = model.markers.length === 0;
  }

  /** The theme has changed. */
  repaint(): void {
    this.palette = readPalette(this.host);
    if (this.cloud) this.setCloud(this.cloud);
  }

  /** As at first: all agents in view, and what they work on. */
  reset(): void {
    firstFit = this.cloud?.paths.length ? fit(this.cloud.xyz) : null;
    if (this.cloud) this.setCloud(this.cloud);
    this.frameAll();
  }

  act(act: Act): void {
    this.stage?.act(act, false);
  }

  /** `data-still`: nothing moves, and nothing is to be drawn anew. */
  readonly stir = (): void => {
    this.host.dataset.still = "false";
    this.frame ||= requestAnimationFrame((now) => this.draw(now));
  };

  /** The cloud itself is to be drawn anew: the camera moved, or the cloud is another. */
  private readonly moved = (): void => {
    this.stale = true;
    this.stir();
  };

  dispose(): void {
    this.off.abort();
    this.watch.disconnect();
    cancelAnimationFrame(this.frame);
    cancelAnimationFrame(this.hovering);
    this.frame = -1;
    this.stage?.dispose();
    this.host.replaceChildren();
  }

  private resize(): void {
    const { clientWidth, clientHeight } = this.host;
    if (!clientWidth || !clientHeight) return;
    this.width = clientWidth;
    this.height = clientHeight;
    const ratio = Math.min(2, devicePixelRatio || 1);
    this.ink.width = Math.round(clientWidth * ratio);
    this.ink.height = Math.round(clientHeight * ratio);
    this.stage?.resize(clientWidth, clientHeight);
    this.sized = this.stage !== null;
    this.framed = false;
    this.frameAtFirst();
    // At once: a canvas that was resized is empty.
    this.stale = true;
    this.draw(performance.now());
  }

  private glow(key: string, now: number): number {
    const since = this.glows.get(key);
    if (since === undefined || now - since > GLOW_MS) return 0;
    return 0.5 - 0.5 * Math.cos(((now - since) / 800) * Math.PI);
  }

  private draw(now: number): void {
    this.frame = 0;
    const { stage, cloud, model } = this;
    if (!stage || !cloud || !model) return;
    // Agents move over a cloud that stands: it is drawn once for each look at it, not for each of their steps.
    if (this.stale) stage.draw();
    this.stale = false;
    this.spots.clear();
    for (const { id } of model.markers) {
      const at = placeOf(this.motion, id, now);
      if (at) this.spots.set(id, stage.project(at[0], at[1], at[2], newSpot()));
    }
    // The same for both stages: what collides is two markers, and a line.
    apart(this.spots, model.lines.filter((l) => l.level !== "clear").map((l) => [l.a, l.b] as const), this.width, this.height);
    const pen = this.ink.getContext("2d")!;
    const ratio = this.ink.width / this.width;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const scene: Scene = {
      taken: this.labels.place(this.spots, this.width, this.height),
      pen, cloud, model, palette: this.palette, spots: this.spots, width: this.width, height: this.height,
      project: (p, out) => stage.project(p[0], p[1], p[2], out),
      glow: (key) => this.glow(key, now),
    };
    drawInk(scene, newSpot());
    for (const [key, since] of this.glows) if (now - since > GLOW_MS) this.glows.delete(key);
    this.host.dataset.frames = String(Number(this.host.dataset.frames ?? 0) + 1);
    if (moving(this.motion, now) || this.glows.size) this.stir();
    else this.host.dataset.still = "true";
  }

  private here(event: MouseEvent): { x: number; y: number } {
    const box = this.host.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  private agentAt(x: number, y: number): string | null {
    let [best, reach] = [null as string | null, REACH.agent];
    for (const [id, s] of this.spots) {
      const far = Math.hypot(s.x - x, s.y - y);
      if (s.seen && far < reach) [best, reach] = [id, far];
    }
    return best;
  }

  private linkAt(x: number, y: number): string | null {
    let [best, reach] = [null as string | null, Infinity];
    for (const line of this.model?.lines ?? []) {
      const [a, b] = [this.spots.get(line.a), this.spots.get(line.b)];
      if (!a?.seen || !b?.seen) continue;
      const far = fromSegment(x, y, a, b);
      if (far < REACH.link + lineWidth(line) / 2 && far < reach) [best, reach] = [line.key, far];
    }
    return best;
  }

  private fileAt(x: number, y: number): string | null {
    const { cloud, stage } = this;
    if (!cloud || !stage) return null;
    const spot = newSpot();
    let [best, reach] = [-1, REACH.file];
    for (let i = 0; i < cloud.paths.length; i++) {
      stage.project(cloud.xyz[i * 3]!, cloud.xyz[i * 3 + 1]!, cloud.xyz[i * 3 + 2]!, spot);
      const far = Math.hypot(spot.x - x, spot.y - y);
      if (spot.seen && far < reach) [best, reach] = [i, far];
    }
    return best < 0 ? null : cloud.paths[best]!;
  }

  private released(event: PointerEvent): void {
    const from = this.pressed;
    this.pressed = null;
    const { x, y } = this.here(event);
    if (!from || event.button !== 0 || Math.hypot(from.x - x, from.y - y) > 5) return;
    const agent = this.agentAt(x, y);
    const link = agent === null ? this.linkAt(x, y) : null;
    this.wishes.onPick(agent !== null ? { agent } : link !== null ? { link } : null);
  }

  private hover(event: PointerEvent): void {
    if (event.buttons || event.pointerType === "touch") return this.hide();
    const { x, y } = this.here(event);
    this.hovering ||= requestAnimationFrame(() => {
      this.hovering = 0;
      const agent = this.agentAt(x, y);
      const link = agent === null ? this.linkAt(x, y) : null;
      const words = agent ?? link ?? this.fileAt(x, y);
      this.host.classList.toggle("pointing", agent !== null || link !== null);
      this.tip.hidden = words === null;
      if (words === null) return;
      this.tip.textContent = words;
      const left = Math.min(x + 14, this.width - this.tip.offsetWidth - 6);
      const top = y + 18 + this.tip.offsetHeight > this.height ? y - 12 - this.tip.offsetHeight : y + 18;
      this.tip.style.transform = `translate(${Math.round(Math.max(4, left))}px, ${Math.round(top)}px)`;
    });
  }

  private hide(): void {
    this.tip.hidden = true;
    this.host.classList.remove("pointing");
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = KEYS[event.key];
    if (act) this.stage?.act(act, event.shiftKey);
    else if (event.key === "0" || event.key === "Home") this.reset();
    else if (event.key === "Escape") this.wishes.onPick(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

function fromSegment(x: number, y: number, a: Spot, b: Spot): number {
  const [dx, dy] = [b.x - a.x, b.y - a.y];
  const length = dx * dx + dy * dy;
  const t = length ? Math.max(0, Math.min(1, ((x - a.x) * dx + (y - a.y) * dy) / length)) : 0;
  return Math.hypot(x - a.x - t * dx, y - a.y - t * dy);
}
