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
    // three.js (137 kB gzip) is loaded only when somebody opens the airspace in 3D.
    chunkSizeWarningLimit: 600,
  },
  server: { proxy: { "/api": "http://127.0.0.1:4173", "/ws": { target: "ws://127.0.0.1:4173", ws: true } } },
});
