import { useQuery } from '@tanstack/react-query'
import { useEffect, useRef } from 'react'
import { freeMachines, labQuery, machinesQuery, takenQuery } from '../lab/lab'
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
  const taken = useQuery({ ...takenQuery, enabled: wanted, refetchOnMount: 'always' })
  const fresh = machines.isFetchedAfterMount && taken.isFetchedAfterMount
  const filled = useRef(false)
  useEffect(() => {
    // What another page read some time ago may be in use by now.
    if (filled.current || !fresh || !lab.data || !machines.data || !taken.data) return
    filled.current = true
    const free = freeMachines(machines.data, taken.data)
    fill({ siteUrl: lab.data.maas_url, sku: lab.data.sku, machines: free.slice(0, count).map((m) => ({ hostname: m.hostname, ipmi_ip: m.bmc })) })
  }, [fresh, lab.data, machines.data, taken.data, count, fill])
  return { error: lab.error ?? machines.error ?? taken.error, noLab: wanted && lab.data === null }
}
