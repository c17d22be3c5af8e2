import preact from "@preact/preset-vite";
import { defineConfig, type Plugin } from "vite";

/** See marked.mjs. */
const lexerOfMarked: Plugin = {
  name: "lexer-of-marked",
  apply: "build",
  enforce: "pre",
  resolveId: (id) => (id === "marked" ? decodeURI(new URL("node_modules/.marked/index.ts", import.meta.url).pathname) : null),
};
/** What highlight.js has of CommonJS is one line, for which a file more would come. Of its functions those stay that the page and
 * its languages call; what colours a whole document by itself goes. */
const highlightModule: Plugin = {
  name: "highlight-module",
  transform: {
    filter: { id: /highlight\.js\/lib\/core\.js$/ },
    handler: (code) =>
      code
        .replace("module.exports =", "export default")
        .replace(/Object\.assign\(hljs, \{\n\s+highlight,[^}]*\}\)/, "Object.assign(hljs, { highlight, registerLanguage, getLanguage, inherit })")
        .replace(/hljs\.(?:debugMode|safeMode) = [^\n]*\n/g, ""),
  },
};

// The page is served under a CSP without inline script, style attributes or data: fonts, so nothing is inlined.
export default defineConfig({
  plugins: [preact(), lexerOfMarked, highlightModule],
  build: {
    outDir: "../relay/faces/static",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    target: "es2022",
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
    // three.js (137 kB gzip) is loaded only when somebody opens the airspace in 3D.
    chunkSizeWarningLimit: 600,
    rolldownOptions: {
      output: {
        codeSplitting: {
          // What comes together is one file: several would be compressed worse, each with headers of its own.
          groups: [{ name: "index", tags: ["$initial"] }],
        },
      },
    },
  },
  server: { proxy: { "/api": "http://127.0.0.1:4173", "/ws": { target: "ws://127.0.0.1:4173", ws: true } } },
});
