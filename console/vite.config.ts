import react from '@vitejs/plugin-react';
import { defineConfig } from 'vitest/config';
import { themeCss } from './theme-css.ts';

// Where `npm run dev` sends what is the API's: a demo at its default port, or another one.
const api = process.env.HOLDFAST_API ?? 'http://127.0.0.1:7460';

export default defineConfig({
  plugins: [react(), themeCss()],
  build: {
    outDir: 'dist/web',
    target: 'es2022',
    // Everything is a file of its own: the policy of the page allows no `data:` but for images.
    assetsInlineLimit: 0,
    // A polyfill would be an inline script.
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1000,
  },
  // What hosts are set up with is beside the console, in `dist`.
  server: { proxy: { '/api': api, '/metrics': api, '/docs': api }, fs: { allow: ['..'] } },
  test: {
    environment: 'happy-dom',
    include: ['src/**/*.test.{ts,tsx}'],
    css: false,
    // Each file cleans up after its tests: with a world of its own for each, most of the time goes by in making those.
    isolate: false,
  },
});
