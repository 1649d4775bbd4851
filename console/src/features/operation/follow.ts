import { useEffect, useState } from 'react'
import { problemOf, Refusal } from '../../api/client'
import { readStream, type Message } from '../../api/sse'
import { begun, heard, logsAddress, type Following } from './lines'
import type { Where, Wish } from './queries'

// The server shows a sign of life every quarter of a minute.
const silentFor = 40_000
// Lines that come together are shown together.
const gather = 100
const retryAtMost = 10_000

/** useFollowed follows the log of a run until it ends; where the connection breaks, it goes on after the last line. */
export function useFollowed(where: Where, operationId: string, wish: Wish, on: boolean): Following {
  const { projectId } = where
  const { target, step_id, q } = wish
  const asked = JSON.stringify([projectId, operationId, target, step_id, q, on])
  const [following, setFollowing] = useState({ asked, ...begun })
  useEffect(() => {
    if (!on) return
    const stopped = new AbortController()
    let last = ''
    let wait = 250
    let waiting: Message[] = []
    let timer: ReturnType<typeof setTimeout> | undefined
    let over = false
    const change = (by: (f: Following) => Following) => setFollowing((f) => ({ asked, ...by(f.asked === asked ? f : begun) }))
    const flush = () => {
      clearTimeout(timer)
      timer = undefined
      const messages = waiting
      waiting = []
      if (messages.length > 0) change((f) => heard(f, messages))
    }
    const connect = async () => {
      try {
        await readStream(logsAddress({ projectId }, operationId, { target, step_id, q }, last), {
          signal: stopped.signal,
          silentFor,
          onOpen: () => {
            wait = 250
            change((f) => ({ ...f, state: 'following' }))
          },
          onMessage: (m) => {
            if (m.event === 'line' && m.id) last = m.id
            if (m.event === 'end' || m.event === 'problem') over = true
            waiting.push(m)
            timer ??= setTimeout(flush, gather)
          },
          refused: async (r) => new Refusal(await problemOf(r)),
        })
      } catch (error) {
        if (stopped.signal.aborted) return
        flush()
        if (error instanceof Refusal && error.status >= 400 && error.status < 500) return change((f) => ({ ...f, state: 'refused', problem: error.problem }))
        change((f) => ({ ...f, state: 'lost' }))
      }
      flush()
      if (over || stopped.signal.aborted) return
      timer = setTimeout(() => {
        timer = undefined
        void connect()
      }, wait)
      wait = Math.min(wait * 2, retryAtMost)
    }
    void connect()
    return () => {
      stopped.abort()
      clearTimeout(timer)
    }
  }, [asked, projectId, operationId, target, step_id, q, on])
  return following.asked === asked ? following : begun
}
