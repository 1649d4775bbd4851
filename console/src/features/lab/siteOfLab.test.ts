import { describe, expect, it, vi } from 'vitest'
import type { Lab, LabMachine } from './lab'

type Call = { method: string; path: string; body: unknown }

// A control plane that knows one kind of thing: sites.
const plane = vi.hoisted(() => {
  const state = { calls: [] as Call[], sites: [] as Record<string, unknown>[], refuse: '' }
  const answer = (status: number, body: unknown) => new Response(JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json' } })
  const profile = { profile_id: 'p1', name: 'default', distro_series: 'ubuntu/noble', batch_max_parallel: 10, version: 4 }
  const fetch = async (request: Request) => {
    const { pathname } = new URL(request.url)
    const path = pathname.replace('/api/v1/admin/maas-sites', '')
    const body: unknown = request.method === 'GET' || path.endsWith('/probe') ? undefined : await request.json()
    state.calls.push({ method: request.method, path, body })
    if (state.refuse && path.endsWith(state.refuse)) return answer(422, { code: 'maas_unreachable', status: 422, title: 'Invalid', detail: 'MAAS did not answer' })
    if (path === '' && request.method === 'GET') return answer(200, { items: state.sites })
    if (path === '' && request.method === 'POST') {
      state.sites.push({ ...(body as object), site_id: 's1', version: 1, status: 'active' })
      return answer(201, state.sites.at(-1))
    }
    if (path === '/s1' && request.method === 'PATCH') return answer(200, Object.assign(state.sites[0] ?? {}, body))
    if (path === '/s1/profiles') return answer(200, { items: [profile] })
    if (path === '/s1/profiles/p1') return answer(200, Object.assign(profile, body))
    if (path === '/s1/credentials') return answer(200, {})
    if (path === '/s1/probe') return answer(200, { ok: true, checks: [] })
    return answer(404, { code: 'not_found', status: 404, title: 'Not found' })
  }
  Object.assign(globalThis, { window: { location: { origin: 'http://console.test' } }, fetch })
  return state
})

const { advanced, firstSteps, makeDemoSite, siteOfLab } = await import('./siteOfLab')
const { freeMachines, sameAddress } = await import('./lab')

const lab: Lab = {
  name: 'lab',
  kind: 'process',
  region_code: 'lab',
  sku: 'h200',
  image: 'custom/gpu',
  maas_url: 'http://127.0.0.1:5240/MAAS',
  machines: 24,
  pxe_iface: 'eth0',
  node_pxe_iface: 'eno1',
  deploy_user: 'ubuntu',
  deploy_ssh_iface: 'eno1',
  max_parallel: 12,
  credentials: { api_token: 'a:b:c', deploy_password: 'pw', power: { user: 'root', pass: 'pw' } },
}

describe('makeDemoSite', () => {
  const run = async (at: Lab) => {
    plane.calls.length = 0
    let steps = firstSteps
    const made = await makeDemoSite(at, (key, state, said) => (steps = advanced(steps, key, state, said))).catch((e: unknown) => e)
    return { made, steps: steps.map((s) => s.state), calls: plane.calls.map((c) => `${c.method} ${c.path}`) }
  }

  it('stops at what fails, goes on from there, and changes nothing that is right', async () => {
    plane.refuse = '/credentials'
    const first = await run(lab)
    expect(first.made).toBeInstanceOf(Error)
    expect(first.steps).toEqual(['done', 'failed', 'waiting', 'waiting'])
    expect(plane.calls[1]?.body).toEqual({
      name: 'lab',
      region_code: 'lab',
      api_base_url: lab.maas_url,
      pxe_iface: 'eth0',
      pxe_vlan_vid: 0,
      node_pxe_iface: 'eno1',
      deploy_user: 'ubuntu',
      deploy_ssh_iface: 'eno1',
      max_parallel: 12,
    })

    plane.refuse = ''
    const second = await run(lab)
    expect(second.steps).toEqual(['done', 'done', 'done', 'done'])
    expect(second.calls).toEqual(['GET ', 'POST /s1/credentials', 'GET /s1/profiles', 'PATCH /s1/profiles/p1', 'POST /s1/probe'])
    expect(plane.calls[1]?.body).toEqual(lab.credentials)
    expect(plane.calls[3]?.body).toEqual({ distro_series: 'custom/gpu', batch_max_parallel: 12 })

    const third = await run(lab)
    expect(third.calls).not.toContain('PATCH /s1/profiles/p1')
  })

  it('follows a lab that was started elsewhere', async () => {
    const moved = await run({ ...lab, maas_url: 'http://127.0.0.1:9999/MAAS' })
    expect(moved.calls.slice(0, 2)).toEqual(['GET ', 'PATCH /s1'])
    expect(plane.sites[0]?.api_base_url).toBe('http://127.0.0.1:9999/MAAS')
  })
})

describe('siteOfLab', () => {
  const site = (name: string, api_base_url: string) => ({ name, api_base_url }) as Parameters<typeof siteOfLab>[0][number]

  it('prefers the address to the name', () => {
    expect(siteOfLab([site('lab', 'http://other/MAAS'), site('mine', `${lab.maas_url}/`)], lab)?.name).toBe('mine')
    expect(siteOfLab([site('lab', 'http://other/MAAS')], lab)?.name).toBe('lab')
    expect(siteOfLab([site('dc1', 'http://other/MAAS')], lab)).toBeUndefined()
  })
})

it('knows addresses of MAAS however they are written', () => {
  expect(sameAddress('http://Maas:5240/MAAS', 'http://maas:5240/MAAS/api/2.0')).toBe(true)
  expect(sameAddress('http://maas:5240/MAAS', 'http://maas:5241/MAAS')).toBe(false)
})

it('takes only machines that somebody could onboard', () => {
  const machine: LabMachine = { hostname: 'gpu-1', system_id: 'a', status: 'New', power: 'off', bmc: '10.0.0.1', addresses: [], owner: '', faults: [] }
  const all = [machine, { ...machine, hostname: 'gpu-2', status: 'Ready' }, { ...machine, status: 'Deployed' }, { ...machine, owner: 'gpuaas' }, { ...machine, bmc: '' }]
  expect(freeMachines(all, new Set())).toEqual(all.slice(0, 2))
  expect(freeMachines(all, new Set([all[0]?.hostname ?? '']))).toEqual(all.slice(1, 2))
})
