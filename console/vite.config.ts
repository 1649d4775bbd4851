import { defineConfig } from 'vitest/config'
import react from '@vitejs/plugin-react'
import tailwindcss from '@tailwindcss/vite'

// In development the page comes from here and everything else from a control
// plane that runs beside it (make up).
const plane = process.env.GPUAAS_URL ?? 'http://127.0.0.1:8080'
const proxied = ['/api', '/lab', '/docs', '/openapi.yaml', '/readyz']

export default defineConfig({
  plugins: [react(), tailwindcss()],
  build: { target: 'es2022', modulePreload: { polyfill: false }, emptyOutDir: false },
  server: { proxy: Object.fromEntries(proxied.map((path) => [path, { target: plane, changeOrigin: false }])) },
  test: { include: ['src/**/*.test.ts', 'src/**/*.test.tsx'] },
})
