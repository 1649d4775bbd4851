import { useQuery } from '@tanstack/react-query'
import { useEffect, useRef } from 'react'
import { api, got } from '../../api/client'
import { freeMachines, labQuery, machinesQuery } from '../lab/lab'
import { largestPage, readAll } from '../../api/readall'
import type { Machine } from './machines'

export type FromLab = { siteUrl: string; sku: string; machines: Machine[] }

/**
 * useLabMachines fills the form once with machines of the lab that nothing has
 * used yet: free in MAAS, and neither nodes nor on the way to becoming ones.
 */
export function useLabMachines(count: number, fill: (from: FromLab) => void) {
  const wanted = count > 0
  const lab = useQuery({ ...labQuery, enabled: wanted })
  const machines = useQuery({ ...machinesQuery, enabled: wanted, refetchInterval: false, refetchOnMount: 'always' })
  const taken = useQuery({
    // Needed once: no event has it read again.
    queryKey: ['lab', 'taken-names'],
    enabled: wanted,
    gcTime: 0,
    refetchOnMount: 'always',
    queryFn: async () => {
      const [nodes, open] = await Promise.all([
        readAll((cursor) => got(api.GET('/api/v1/admin/nodes', { params: { query: { cursor, page_size: largestPage } } }))),
        readAll((cursor) => got(api.GET('/api/v1/admin/onboardings', { params: { query: { cursor, page_size: largestPage, status: ['pending', 'running', 'compensating', 'failed'] } } }))),
      ])
      return [...nodes.rows, ...open.rows].map((n) => n.hostname)
    },
  })
  const fresh = machines.isFetchedAfterMount && taken.isFetchedAfterMount
  const filled = useRef(false)
  useEffect(() => {
    // What another page read some time ago may be in use by now.
    if (filled.current || !fresh || !lab.data || !machines.data || !taken.data) return
    filled.current = true
    const used = new Set(taken.data)
    const free = freeMachines(machines.data).filter((m) => !used.has(m.hostname))
    fill({ siteUrl: lab.data.maas_url, sku: lab.data.sku, machines: free.slice(0, count).map((m) => ({ hostname: m.hostname, ipmi_ip: m.bmc })) })
  }, [fresh, lab.data, machines.data, taken.data, count, fill])
  return { error: lab.error ?? machines.error ?? taken.error, noLab: wanted && lab.data === null }
}
