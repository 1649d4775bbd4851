import { api, got, problemOf, reach, Refusal } from '../../api/client'
import { largestPage, readAll } from '../../api/readall'

/** The virtual data centre beside a control plane that was started with `gpuaas up`. It is no part of the contract. */
export type Lab = {
  name: string
  /** What runs behind the machines: processes or containers of this host. */
  kind: string
  region_code: string
  sku: string
  image: string
  maas_url: string
  machines: number
  pxe_iface: string
  node_pxe_iface: string
  deploy_user: string
  deploy_ssh_iface: string
  max_parallel: number
  credentials: { api_token: string; deploy_password: string; power: { user: string; pass: string } }
}

/** A machine of the lab as its MAAS shows it; faults are words of happenings. */
export type LabMachine = { hostname: string; system_id: string; status: string; power: string; bmc: string; addresses: string[]; owner: string; faults: string[] }

/** Something that one can let happen to a machine: at once, or from now on until it is healed. */
export type Happening = { what: string; label: string; explanation: string; lasts: boolean }

async function ask<T>(path: string, init?: RequestInit): Promise<T> {
  const response = await reach(`/lab/${path}`, { credentials: 'same-origin', ...init })
  if (!response.ok) throw new Refusal(await problemOf(response))
  return (await response.json()) as T
}

/** labQuery is the lab, or null where there is none. */
export const labQuery = {
  queryKey: ['lab'],
  queryFn: async (): Promise<Lab | null> => {
    try {
      return await ask<Lab>('')
    } catch (error) {
      if (error instanceof Refusal && [403, 404].includes(error.status)) return null
      throw error
    }
  },
  staleTime: Infinity,
}

export const machinesQuery = { queryKey: ['lab', 'machines'], queryFn: () => ask<LabMachine[]>('machines'), refetchInterval: 2_000 }

export const happeningsQuery = { queryKey: ['lab', 'happenings'], queryFn: () => ask<Happening[]>('happenings'), staleTime: Infinity }

const post = (path: string, body: unknown) => ask<{ said: string }>(path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) })

export const happen = (machine: string, what: string) => post(`machines/${encodeURIComponent(machine)}/happen`, { what })
export const heal = (machine: string) => post(`machines/${encodeURIComponent(machine)}/heal`, {})

/** freeMachines are those that somebody could onboard: nobody owns or has them, and MAAS can switch them. */
export function freeMachines(machines: LabMachine[], taken: ReadonlySet<string>): LabMachine[] {
  return machines.filter((m) => !taken.has(m.hostname) && m.owner === '' && m.bmc !== '' && (m.status === 'New' || m.status === 'Ready'))
}

/** takenQuery is the names of machines that are nodes, or on the way to becoming ones, whatever MAAS says of them. */
export const takenQuery = {
  queryKey: ['lab', 'taken-names'],
  queryFn: async () => {
    const [nodes, open] = await Promise.all([
      readAll((cursor) => got(api.GET('/api/v1/admin/nodes', { params: { query: { cursor, page_size: largestPage } } }))),
      readAll((cursor) => got(api.GET('/api/v1/admin/onboardings', { params: { query: { cursor, page_size: largestPage, status: ['pending', 'running', 'compensating', 'failed'] } } }))),
    ])
    return new Set([...nodes.rows, ...open.rows].map((n) => n.hostname))
  },
}

/** sameAddress compares addresses of MAAS however they are written: where a site and the lab are meant to be one. */
export function sameAddress(a: string, b: string): boolean {
  const plain = (url: string) => url.toLowerCase().replace(/\/+$/, '').replace(/\/api\/2\.0$/, '')
  return plain(a) === plain(b)
}
