import { defineConfig } from "vitest/config";

// What decides is pure and tested here; what is seen is tested in a real browser (tests/browser).
export default defineConfig({ test: { include: ["src/**/*.test.ts"], environment: "node" } });
