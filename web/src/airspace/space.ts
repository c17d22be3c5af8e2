/**
 * The cloud in space: one draw call of points with three.js. The only module that loads three.
 *
 * Invariant: nothing is drawn unless `draw` is called; `changed` says that the camera moved. `dispose` frees the
 * context, which browsers give out only a few of.
 */

import {
  BufferAttribute, BufferGeometry, Color, PerspectiveCamera, Points, Scene, ShaderMaterial, Vector3, WebGLRenderer,
} from "three";
import { OrbitControls } from "three/addons/controls/OrbitControls.js";
import type { Point } from "../basic_types";
import { scaled, type Cloud, type Fit } from "./cloud";
import { standInSpace, type Margins } from "./frame";
import type { Palette } from "./palette";
import type { Act, Spot, Stage } from "./stage";

const VERTEX = `
uniform float size;
uniform float reach;
attribute vec4 tint;
varying vec3 vTint;
varying float vFade;
void main() {
  vec4 seen = modelViewMatrix * vec4(position, 1.0);
  gl_Position = projectionMatrix * seen;
  gl_PointSize = clamp(size * reach / -seen.z, 1.0, 40.0);
  vTint = tint.rgb;
  vFade = clamp((-seen.z - reach + 1.1) / 2.2, 0.0, 1.0);
}`;
/** Round points that sink into the ground's colour with their depth. */
const FRAGMENT = `
uniform vec3 ground;
varying vec3 vTint;
varying float vFade;
void main() {
  float r = length(gl_PointCoord - 0.5);
  float alpha = 1.0 - smoothstep(0.36, 0.5, r);
  if (alpha < 0.02) discard;
  gl_FragColor = vec4(mix(vTint, ground, vFade * 0.62), alpha * 0.92);
}`;

/** Points that are drawn while the picture turns on a machine for which all of them are too many. */
const COARSE = 6000;
/** Milliseconds from frame to frame from which a machine counts as such, and of rest after which all are drawn. */
const SLOW_MS = 90;
const REST_MS = 220;
const FIELD = 40;
/** The camera's distances from what it shows, in units of the fit. */
const NEAREST = 0.5;
const FARTHEST = 12;
/** The side from which the camera looks at first, and how far from a cloud without agents. */
const STAND = new Vector3(1.35, 0.95, 2.35);
const TURN = Math.PI / 24;

/** A step through 0..n-1 that meets each once, so that the first points are of all folders. */
function stride(n: number): number {
  const common = (a: number, b: number): number => (b ? common(b, a % b) : a);
  let step = Math.max(1, Math.floor(n * 0.618));
  while (common(step, n) > 1) step++;
  return step;
}

export class Space implements Stage {
  private readonly renderer: WebGLRenderer;
  private readonly scene = new Scene();
  private readonly camera = new PerspectiveCamera(FIELD, 1, 0.01, 60);
  private readonly controls: OrbitControls;
  private points: Points<BufferGeometry, ShaderMaterial> | null = null;
  private fit: Fit | null = null;
  private width = 1;
  private height = 1;
  private readonly at = new Vector3();
  /** From the camera to the middle of what it shows. */
  private reach = STAND.length();
  touched = false;
  private slow = false;
  private drawnAt = 0;
  private resting: ReturnType<typeof setTimeout> | undefined;

  /** Throws where the browser gives no WebGL. `lost` is called when it takes it away. */
  constructor(
    canvas: HTMLCanvasElement,
    surface: HTMLElement,
    private readonly changed: () => void,
    lost: () => void,
  ) {
    this.renderer = new WebGLRenderer({ canvas, antialias: false, alpha: true, powerPreference: "low-power" });
    this.renderer.setClearAlpha(0);
    this.camera.position.copy(STAND);
    this.controls = new OrbitControls(this.camera, surface);
    this.controls.enableDamping = false;
    this.controls.minDistance = 0.15;
    this.controls.maxDistance = FARTHEST;
    this.controls.zoomToCursor = true;
    this.controls.addEventListener("change", () => {
      this.touched = true;
      changed();
    });
    this.canvasLost = (event) => {
      event.preventDefault();
      lost();
    };
    canvas.addEventListener("webglcontextlost", this.canvasLost);
  }

  private readonly canvasLost: (event: Event) => void;

  setCloud(cloud: Cloud, fit: Fit, palette: Palette): void {
    this.clear();
    this.fit = fit;
    const n = cloud.paths.length;
    const places = new Float32Array(n * 3);
    // Four bytes each: three would not be aligned, which some graphics drivers take badly.
    const tints = new Uint8Array(n * 4);
    const colours = cloud.folders.map((folder) => palette.folder(folder.hue));
    const step = stride(n);
    for (let k = 0; k < n; k++) {
      const i = (k * step) % n;
      places.set(scaled(fit, [cloud.xyz[i * 3]!, cloud.xyz[i * 3 + 1]!, cloud.xyz[i * 3 + 2]!]), k * 3);
      tints.set(colours[cloud.folder[i]!]!, k * 4);
    }
    const geometry = new BufferGeometry();
    geometry.setAttribute("position", new BufferAttribute(places, 3));
    geometry.setAttribute("tint", new BufferAttribute(tints, 4, true));
    const ratio = Math.min(2, devicePixelRatio || 1);
    const material = new ShaderMaterial({
      vertexShader: VERTEX,
      fragmentShader: FRAGMENT,
      uniforms: {
        size: { value: ratio * (n > 20_000 ? 2.4 : n > 3000 ? 3.4 : 5.5) },
        reach: { value: this.reach },
        ground: { value: new Color(palette.ground[0] / 255, palette.ground[1] / 255, palette.ground[2] / 255) },
      },
      transparent: true,
      depthWrite: false,
    });
    this.points = new Points(geometry, material);
    this.points.frustumCulled = false;
    this.scene.add(this.points);
  }

  resize(width: number, height: number): void {
    this.width = width;
    this.height = height;
    this.renderer.setPixelRatio(Math.min(2, devicePixelRatio || 1));
    this.renderer.setSize(width, height, false);
    this.camera.aspect = width / Math.max(1, height);
    // A tall picture is as wide as it is high at the cloud's distance.
    this.camera.fov = this.camera.aspect >= 1 ? FIELD : (2 * Math.atan(Math.tan((FIELD * Math.PI) / 360) / this.camera.aspect) * 180) / Math.PI;
    this.camera.updateProjectionMatrix();
  }

  draw(): void {
    const now = performance.now();
    const gap = now - this.drawnAt;
    this.drawnAt = now;
    const turning = gap < 2000;
    if (turning && gap > SLOW_MS) this.slow = true;
    clearTimeout(this.resting);
    if (turning && this.slow && this.points) {
      this.points.geometry.setDrawRange(0, COARSE);
      this.resting = setTimeout(() => {
        this.drawnAt = 0;
        this.changed();
      }, REST_MS);
    } else this.points?.geometry.setDrawRange(0, Infinity);
    this.renderer.render(this.scene, this.camera);
  }

  project(x: number, y: number, z: number, out: Spot): Spot {
    const [a, b, c] = this.fit ? scaled(this.fit, [x, y, z]) : [x, y, z];
    this.at.set(a, b, c).applyMatrix4(this.camera.matrixWorldInverse);
    const depth = -this.at.z;
    this.at.applyMatrix4(this.camera.projectionMatrix);
    out.x = ((this.at.x + 1) / 2) * this.width;
    out.y = ((1 - this.at.y) / 2) * this.height;
    out.near = depth > 0 ? this.camera.position.distanceTo(this.controls.target) / depth : 0;
    out.seen = depth > this.camera.near;
    return out;
  }

  act(act: Act, shift: boolean): void {
    const offset = this.camera.position.clone().sub(this.controls.target);
    if (act === "in" || act === "out") {
      const length = Math.min(this.controls.maxDistance, Math.max(this.controls.minDistance, offset.length() * (act === "in" ? 0.84 : 1.19)));
      offset.setLength(length);
    } else if (shift) {
      const step = offset.length() * 0.06;
      const across = new Vector3().setFromMatrixColumn(this.camera.matrix, act === "up" || act === "down" ? 1 : 0);
      this.controls.target.addScaledVector(across, act === "right" || act === "up" ? step : -step);
    } else if (act === "left" || act === "right") {
      offset.applyAxisAngle(this.camera.up, act === "left" ? -TURN : TURN);
    } else {
      const across = new Vector3().setFromMatrixColumn(this.camera.matrix, 0);
      const turned = offset.clone().applyAxisAngle(across, act === "up" ? -TURN : TURN);
      // Not over the pole: there the picture would turn round.
      if (turned.angleTo(this.camera.up) > 0.1 && turned.angleTo(this.camera.up) < Math.PI - 0.1) offset.copy(turned);
    }
    this.camera.position.copy(this.controls.target).add(offset);
    this.settle();
  }

  show(points: readonly Point[], least: number, margins: Margins): void {
    const fit = this.fit;
    if (!fit || !points.length) return;
    // Seen from the usual side: its axes are right, up, and towards the viewer.
    const towards = STAND.clone().normalize();
    const right = new Vector3().crossVectors(this.camera.up, towards).normalize();
    const up = new Vector3().crossVectors(towards, right);
    const seen = points.map((p): Point => {
      const at = new Vector3(...scaled(fit, p));
      return [at.dot(right), at.dot(up), at.dot(towards)];
    });
    const tan = Math.tan((this.camera.fov * Math.PI) / 360);
    const middle = (seen.reduce((m, p) => Math.min(m, p[2]), Infinity) + seen.reduce((m, p) => Math.max(m, p[2]), -Infinity)) / 2;
    const nearest = middle + Math.max(NEAREST, (least * fit.scale) / 2 / tan);
    const at = standInSpace(seen, [tan * this.camera.aspect, tan], this.width, this.height, margins, nearest);
    const away = at.z - middle;
    this.reach = away;
    if (this.points) this.points.material.uniforms.reach!.value = away;
    this.controls.maxDistance = Math.max(FARTHEST, 2 * away);
    this.camera.far = 5 * this.controls.maxDistance;
    this.camera.updateProjectionMatrix();
    const place = (z: number): Vector3 => new Vector3().addScaledVector(right, at.x).addScaledVector(up, at.y).addScaledVector(towards, z);
    this.controls.target.copy(place(middle));
    this.camera.position.copy(place(at.z));
    this.settle();
    // `project` may be asked before the next frame.
    this.camera.updateMatrixWorld();
    this.touched = false;
  }

  private settle(): void {
    this.controls.update();
    this.changed();
  }

  private clear(): void {
    if (!this.points) return;
    this.scene.remove(this.points);
    this.points.geometry.dispose();
    this.points.material.dispose();
    this.points = null;
  }

  dispose(): void {
    clearTimeout(this.resting);
    this.controls.dispose();
    this.clear();
    this.renderer.domElement.removeEventListener("webglcontextlost", this.canvasLost);
    this.renderer.dispose();
    this.renderer.forceContextLoss();
  }
}
