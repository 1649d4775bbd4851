import { describe, expect, it } from 'vitest'
import { bodyFrom, keptAfter, nothing, wrongWith } from './credentialDraft'

const typed = { api_token: 'a:b:c', deploy_password: 'secret', user: 'root', pass: 'calvin' }

describe('keptAfter', () => {
  it.each([0, 500, 502, 503])('keeps all when nobody has judged it (%d)', (status) => {
    expect(keptAfter(typed, status)).toEqual(typed)
  })

  it.each([400, 403, 409, 422])('keeps the account and no secret when it was refused (%d)', (status) => {
    expect(keptAfter(typed, status)).toEqual({ ...nothing, user: 'root' })
  })
})

describe('bodyFrom', () => {
  it('sends what was typed and nothing else', () => {
    expect(bodyFrom(nothing)).toEqual({})
    expect(bodyFrom({ ...nothing, api_token: ' a:b:c ' })).toEqual({ api_token: 'a:b:c' })
    expect(bodyFrom(typed)).toEqual({ api_token: 'a:b:c', deploy_password: 'secret', power: { user: 'root', pass: 'calvin' } })
  })
})

describe('wrongWith', () => {
  it('wants an account and its password together', () => {
    expect(wrongWith({ ...nothing, pass: 'x' })).toHaveProperty('user')
    expect(wrongWith({ ...nothing, user: 'x' })).toHaveProperty('pass')
    expect(wrongWith({ ...nothing, api_token: 'a:b' })).toHaveProperty('api_token')
    expect(wrongWith(typed)).toEqual({})
  })
})
