import preact from "@preact/preset-vite";
import { defineConfig } from "vite";

// The page is served under a CSP without inline script, style attributes or data: fonts, so nothing is inlined.
export default defineConfig({
  plugins: [preact()],
  build: {
    outDir: "../relay/faces/static",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    target: "es2022",
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
  server: { proxy: { "/api": "http://127.0.0.1:4173", "/ws": { target: "ws://127.0.0.1:4173", ws: true } } },
});
