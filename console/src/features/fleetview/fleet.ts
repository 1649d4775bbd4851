import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef } from 'react'
import { api, got, type Schemas } from '../../api/client'
import type { BatchFamily, JobFamily } from '../../api/jobs'
import { theLive, type LiveEvent } from '../../api/live'
import { useMay } from '../../app/session'
import { caughtUp, patched, type Changed, type Heard } from './racks'

export const summaryQuery = { queryKey: ['fleet', 'summary'], queryFn: () => got(api.GET('/api/v1/admin/fleet')), refetchInterval: 30_000 }

// What events said lately, for maps that were on their way when they came.
let heard: Heard[] = []
const heardFor = 30_000

const mapKey = ['fleet', 'map']
const mapQuery = {
  queryKey: mapKey,
  queryFn: async () => {
    const from = performance.now()
    const map = await got(api.GET('/api/v1/admin/fleet/map'))
    return { ...map, nodes: caughtUp(map.nodes, heard, from) }
  },
  // It is large: events are written into it as they come, while it is shown. Whoever comes back to it reads it anew.
  meta: { patched: true },
  staleTime: 0,
  refetchOnMount: 'always' as const,
}

// What events do not say, findings and jobs, is read anew now and then. The interval
// of a query would begin again with each event that is written into it.
const readAnewEvery = 15_000

/** changeOf is what an event says about the state of a node. */
function changeOf({ envelope }: LiveEvent): Changed | undefined {
  if (!['node.state_changed', 'node.updated', 'node.created', 'node.enrolled'].includes(envelope.event_type)) return undefined
  const said = envelope.payload as Partial<Changed>
  return said.node_id && said.status ? { node_id: said.node_id, status: said.status, schedulable: said.schedulable ?? false } : undefined
}

/** useFleetMap is the map, kept up to date by events: many within half a second are one change. */
export function useFleetMap() {
  const queries = useQueryClient()
  const waiting = useRef<Changed[]>([])
  useEffect(() => {
    let soon: ReturnType<typeof setTimeout> | undefined
    const flush = () => {
      soon = undefined
      const changes = waiting.current
      waiting.current = []
      const before = queries.getQueryData<Schemas['FleetviewMap']>(mapKey)
      if (!before) return
      const nodes = patched(before.nodes, changes)
      if (nodes) queries.setQueryData(mapKey, { ...before, nodes })
      else void queries.invalidateQueries({ queryKey: mapKey })
    }
    const stop = theLive().listen((e) => {
      const change = changeOf(e)
      if (!change) return
      const at = performance.now()
      heard = [...heard.filter((h) => h.at > at - heardFor), { at, change }]
      waiting.current.push(change)
      soon ??= setTimeout(flush, 500)
    })
    const readAnew = setInterval(() => {
      if (!document.hidden) void queries.invalidateQueries({ queryKey: mapKey })
    }, readAnewEvery)
    return () => {
      stop()
      clearInterval(readAnew)
      clearTimeout(soon)
    }
  }, [queries])
  return useQuery(mapQuery)
}

/** batchesQuery is the newest batches of a kind of jobs, for those that were halted. */
export const batchesQuery = (kind: BatchFamily) => ({ queryKey: [`${kind}-batches`, 'newest'], queryFn: () => got(api.GET(`/api/v1/admin/${kind}-batches`, { params: { query: { page_size: 50 } } })) })

/** parkedQuery is the newest parked jobs of a kind, to be named. */
export const parkedQuery = (kind: JobFamily) => ({ queryKey: [`${kind}s`, 'to-name'], queryFn: () => got(api.GET(`/api/v1/admin/${kind}s`, { params: { query: { status: ['failed'], page_size: 4 } } })) })

export function useSummary() {
  return useQuery(summaryQuery)
}

export function useSystem() {
  const may = useMay()
  return useQuery({ queryKey: ['system', 'overview'], queryFn: () => got(api.GET('/api/v1/admin/system')), enabled: may('system:read'), refetchInterval: 15_000 })
}
