import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** open is a psql of the control plane's own database: benchmarks fill it with more than a lab could make. */
export function open(state: string) {
  const { ports } = JSON.parse(readFileSync(join(state, 'stack.json'), 'utf8')) as { ports: { postgres: number } }
  const password = readFileSync(join(state, 'secrets', 'postgres-gpuaas_owner'), 'utf8').trim()
  const psql = spawn('psql', ['-q', '-v', 'ON_ERROR_STOP=1', '-h', '127.0.0.1', '-p', String(ports.postgres), '-U', 'gpuaas_owner', 'gpuaas'], {
    stdio: ['pipe', 'inherit', 'inherit'],
    env: { ...process.env, PGPASSWORD: password },
  })
  return {
    say: (sql: string) => void psql.stdin.write(`${sql};\n`),
    done: async () => {
      psql.stdin.end()
      const code = await new Promise<number | null>((ended) => psql.on('exit', ended))
      if (code !== 0) throw new Error(`psql ended with ${code}`)
    },
  }
}
