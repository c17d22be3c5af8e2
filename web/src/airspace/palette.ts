/** The page's colours for canvases: custom properties resolved by the browser, as CSS text and as bytes. */

import { colourOf } from "../state/colours";
import { css } from "../text/colours";

export interface Palette {
  dark: boolean;
  ground: Rgb;
  ink: string;
  quiet: string;
  surface: string;
  accent: string;
  clear: string;
  advisory: string;
  resolution: string;
  /** The colour of a name (an agent's). */
  who(name: string): string;
  /** The soft colour of a folder's points. */
  folder(hue: number): Rgb;
}

export type Rgb = readonly [number, number, number];

function bytes(): (colour: string) => Rgb {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const pen = canvas.getContext("2d", { willReadFrequently: true })!;
  return (colour) => {
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b] = pen.getImageData(0, 0, 1, 1).data;
    return [r!, g!, b!];
  };
}

export function readPalette(beside: HTMLElement): Palette {
  const probe = document.createElement("i");
  probe.hidden = true;
  beside.append(probe);
  const read = (name: string): string => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const toBytes = bytes();
  const surface = read("surface");
  const ground = toBytes(surface);
  const dark = ground[0] + ground[1] + ground[2] < 384;
  const folders = new Map<number, Rgb>();
  const palette: Palette = {
    dark,
    ground,
    surface,
    ink: read("ink"),
    quiet: read("ink-3"),
    accent: read("accent"),
    clear: read("line-strong"),
    advisory: read("signal"),
    resolution: read("bad"),
    who: (name) => css(colourOf(name)[dark ? "dark" : "light"]),
    folder(hue) {
      let rgb = folders.get(hue);
      if (!rgb) folders.set(hue, (rgb = toBytes(dark ? `oklch(0.66 0.07 ${hue})` : `oklch(0.68 0.075 ${hue})`)));
      return rgb;
    },
  };
  probe.remove();
  return palette;
}
