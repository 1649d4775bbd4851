import { useQuery } from '@tanstack/react-query'
import { useCallback, useEffect, useRef, useState, useSyncExternalStore } from 'react'
import { useEvents, type LiveEvent } from '../../api/live'
import { BoardStore, isCertain, patched } from './boardstore'
import { idOf, type Job, type JobHappening, type Kind, type Stage } from './job'
import { readAll } from '../../api/readall'

// Events keep the board up to date; reading it now and then corrects what they do not say.
const readEvery = 15_000
const settleFor = 1_500

/** Reads a page of the jobs of a batch. */
export type ReadJobs = (cursor: string | undefined) => Promise<{ items: Job[]; next_cursor?: string }>

/** useBoard keeps the rows of a batch as events tell them. */
export function useBoard({ noun }: Kind, batchId: string, stages: Stage[], read: ReadJobs) {
  const [store] = useState(() => new BoardStore<Job>({ keyOf: idOf }))
  // Events that came while the board was not shown are in no row: it is read each time it is opened.
  // The store compares rows itself, and cheaper than a thousand of them would be compared here.
  const query = useQuery({ queryKey: [`${noun}s`, 'board', batchId], queryFn: () => readAll(read), refetchInterval: readEvery, meta: { patched: true }, structuralSharing: false, refetchOnMount: 'always' })
  const { data, refetch, isFetching } = query
  const reading = useRef(false)
  useEffect(() => {
    reading.current = isFetching
  }, [isFetching])
  useEffect(() => {
    if (data) store.load(data.rows, data.from)
  }, [data, store])

  const again = useRef<ReturnType<typeof setTimeout>>(undefined)
  useEffect(() => () => clearTimeout(again.current), [])
  const onEvent = useCallback(
    ({ envelope }: LiveEvent) => {
      if (!envelope.event_type.startsWith(`node.${noun}.`)) return
      const said = envelope.payload as JobHappening
      if (said.batch_id !== batchId) return
      const row = store.latest(idOf(said))
      if (row) store.patch(patched(row, said, stages, envelope.occurred_at), performance.now())
      if (row && isCertain(said, stages)) return
      again.current ??= setTimeout(() => {
        again.current = undefined
        // A reading that is under way is left to end, or a board that is read slowly would
        // never be read; what happened since it began takes another one.
        const before = reading.current
        void refetch({ cancelRefetch: false }).then(() => (before ? void refetch({ cancelRefetch: false }) : undefined))
      }, settleFor)
    },
    [batchId, noun, refetch, stages, store],
  )
  useEvents(onEvent)
  return { store, query }
}

export function useBoardKeys<T extends Job>(store: BoardStore<T>) {
  return useSyncExternalStore(store.subscribe, store.keys)
}

export function useBoardCounts<T extends Job>(store: BoardStore<T>) {
  return useSyncExternalStore(store.subscribe, store.counts)
}

export function useBoardRow<T extends Job>(store: BoardStore<T>, key: string): T | undefined {
  const watch = useCallback((fn: () => void) => store.watchRow(key, fn), [store, key])
  return useSyncExternalStore(watch, () => store.row(key))
}
