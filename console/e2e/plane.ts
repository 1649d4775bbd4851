import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { clientID, startProvider, type Person } from './provider'

export const admin: Person = { sub: 'ada', email: 'ada@operators.example', name: 'Ada Admin' }
export const auditor: Person = { sub: 'olga', email: 'olga@auditors.example', name: 'Olga Auditor' }
export const tenant: Person = { sub: 'tess', email: 'tess@research.example', name: 'Tess Tenant' }
export const stranger: Person = { sub: 'sam', email: 'sam@elsewhere.example', name: 'Sam Stranger' }

// Webhooks are posted to a receiver of the tests, on this machine.
const receivers = ['--webhooks-plain-http=true', '--webhooks-allowed-networks=127.0.0.0/8']

/**
 * up brings a whole control plane up as a newcomer does, in an empty state folder,
 * with an identity provider beside it. It returns how to take all of it down.
 */
export async function up(extra: string[] = []) {
  const state = mkdtempSync(join(tmpdir(), 'gpuaas-console-'))
  const provider = await startProvider([admin, auditor, tenant, stranger])
  const releaseKey = execFileSync('../bin/gpuaas', ['agent', 'release', 'make-key', join(state, 'release.key')], { encoding: 'utf8' }).trim()
  const gpuaas = spawn(
    '../bin/gpuaas',
    ['up', '--state', state, '--listen', '127.0.0.1:0', '--nodes-listen', '127.0.0.1:0', '--oidc-issuer', provider.issuer, '--oidc-client-id', clientID, '--nodes-release-keys', releaseKey, ...receivers, ...extra],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  )
  let said = ''
  const url = await new Promise<string>((found, failed) => {
    const hear = (piece: Buffer) => {
      said += piece.toString()
      const at = /Open (http:\S+) in a browser/.exec(said)?.[1]
      if (at) found(at)
    }
    gpuaas.stdout.on('data', hear)
    gpuaas.stderr.on('data', hear)
    gpuaas.on('exit', (code) => failed(new Error(`gpuaas up ended with ${code}:\n${said}`)))
  })
  const token = readFileSync(join(state, 'admin-token'), 'utf8').trim()
  const down = async () => {
    if (gpuaas.exitCode === null) {
      gpuaas.kill('SIGINT')
      await once(gpuaas, 'exit')
    }
    provider.stop()
    rmSync(state, { recursive: true, force: true })
  }
  return { url, token, state, down, pid: gpuaas.pid ?? 0 }
}

/** Each test finds the control plane here. */
export const plane = {
  get url() {
    return found('GPUAAS_CONSOLE_URL')
  },
  get token() {
    return found('GPUAAS_CONSOLE_TOKEN')
  },
  get state() {
    return found('GPUAAS_CONSOLE_STATE')
  },
  get pid() {
    return Number(found('GPUAAS_CONSOLE_PID'))
  },
}

function found(name: string): string {
  const value = process.env[name]
  if (!value) throw new Error(`${name} is not set: run the tests through their configuration`)
  return value
}

export default async function setup() {
  const running = await up()
  process.env.GPUAAS_CONSOLE_URL = running.url
  process.env.GPUAAS_CONSOLE_TOKEN = running.token
  process.env.GPUAAS_CONSOLE_STATE = running.state
  process.env.GPUAAS_CONSOLE_PID = String(running.pid)
  return running.down
}
