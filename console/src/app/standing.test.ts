import { describe, expect, it, vi } from 'vitest'

vi.stubGlobal('window', { location: { origin: 'http://plane' } })
const { Refusal } = await import('../api/client')
const { standing, whyEnded } = await import('./standing')

const refusal = (status: number) => new Refusal({ type: 'about:blank', title: '', status, code: 'c', detail: 'd' })

describe('standing', () => {
  it.each([
    [undefined, null, 'asking'],
    [{ id: 'ada' }, null, 'in'],
    [{ id: 'ada' }, refusal(503), 'in'], // one failed reading takes nothing away
    [{ id: 'ada' }, refusal(0), 'in'],
    [{ id: 'ada' }, refusal(401), 'ended'],
    [undefined, refusal(401), 'out'],
    [undefined, refusal(502), 'unheard'],
  ])('with %o and %o is %s', (data, error, want) => {
    expect(standing({ data, error })).toBe(want)
  })
})

describe('whyEnded', () => {
  it('speaks of the session, and passes on what it does not know', () => {
    expect(whyEnded({ code: 'token_expired', detail: 'the token has expired' })).toBe('It expired.')
    expect(whyEnded({ code: 'user_disabled', detail: 'ada is disabled' })).toContain('ada is disabled')
  })
})
