import { describe, expect, it } from 'vitest'
import { keyed } from './idempotency'

type Answer = Response | Error

/** sender answers in turn, and keeps the keys it was sent. */
function sender(...answers: Answer[]) {
  const keys: (string | null)[] = []
  let time = 0
  const send = keyed(
    (r) => {
      keys.push(r.headers.get('Idempotency-Key'))
      const answer = answers.shift() ?? new Response()
      return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer)
    },
    () => time,
  )
  const post = (body: string, ifMatch?: string) => send(new Request('http://plane/api/v1/things', { method: 'POST', body, headers: ifMatch ? { 'If-Match': ifMatch } : {} })).catch(() => undefined)
  return { keys, post, pass: (ms: number) => (time += ms), send }
}

describe('keyed', () => {
  it('sends a change again with the key that it had, when nobody answered', async () => {
    const { keys, post } = sender(new TypeError('gone'), new Response('', { status: 503 }), new Response('', { status: 409, headers: { 'Retry-After': '1' } }))
    for (let i = 0; i < 4; i++) await post('{"a":1}')
    expect(keys[0]).toMatch(/^[0-9a-f]{32}$/)
    expect(new Set(keys).size).toBe(1)
  })

  it('takes a new key once there was an answer, good or bad', async () => {
    const { keys, post } = sender(new Response(), new Response('', { status: 422 }), new Response('', { status: 409 }))
    for (let i = 0; i < 4; i++) await post('{"a":1}')
    expect(new Set(keys).size).toBe(4)
  })

  it('takes a new key for another change, and for the same one much later', async () => {
    const gone = new TypeError('gone')
    const { keys, post, pass } = sender(gone, gone, gone, gone)
    await post('{"a":1}')
    await post('{"a":2}')
    await post('{"a":1}', '"7"')
    pass(10 * 60_000)
    await post('{"a":1}')
    expect(new Set(keys).size).toBe(4)
  })

  it('gives no key to reading and signing in', async () => {
    const { keys, send } = sender()
    await send(new Request('http://plane/api/v1/things'))
    await send(new Request('http://plane/api/v1/auth/session', { method: 'POST', body: '{"token":"t"}' }))
    expect(keys).toEqual([null, null])
  })
})
