import { expect, it } from 'vitest'
import { statesOf } from '../../api/states'
import { draftOf, limitsOf, payWords, runwayWords, standing, type Balance } from './balance'

const balance: Balance = {
  org_id: 't', currency: 'USD', balance_minor: 100_000, accrued_minor: 0, held_minor: 0, available_minor: 100_000, burn_minor_per_hour: 2_800, runway_hours: 35.71, status: 'healthy', since: '2026-03-01T00:00:00Z',
  payment: 'prepaid', credit_line_minor: 0, low_minor: 5_000, low_seconds: 259_200, release_seconds: 86_400, grace_seconds: 0, rearm_percent: 125, version: 1, made_at: '2026-03-05T00:00:00Z',
}

it('has words for every state but the one of which there is nothing to say', () => {
  for (const { name, tone } of statesOf('balance')) {
    const said = standing({ status: name as Balance['status'] })
    if (name === 'healthy') expect(said).toBeUndefined()
    else expect(said, name).toMatchObject({ tone })
  }
})

it('says how long it lasts', () => {
  expect(runwayWords(balance)).toBe('1 d 11 h')
  expect(runwayWords({ available_minor: 5 })).toContain('nothing that costs money is running')
  expect(runwayWords({})).toContain('unlimited')
})

it('says how a tenant pays', () => {
  expect(payWords(balance)).toBe('prepaid, never below zero')
  expect(payWords({ ...balance, payment: 'postpaid', credit_line_minor: 250_000 })).toBe('postpaid, down to -2,500.00 USD')
  expect(payWords({ ...balance, payment: 'postpaid', credit_line_minor: undefined })).toBe('postpaid, without limit')
})

it('has a form that changes nothing by itself', () => {
  const draft = draftOf({ ...balance, low_minor: 123_456_700, grace_seconds: 30 })
  expect(draft).toEqual({ payment: 'prepaid', line: '0.00', lowAmount: '1234567.00', low: '3d', release: '1d', grace: '0.5m', end: false })
  expect(limitsOf(draft, balance)).toMatchObject({ ready: true, body: { payment: 'prepaid', credit_line_minor: 0, low_minor: 123_456_700, low_seconds: 259_200, release_seconds: 86_400, grace_seconds: 30, rearm_percent: 125 } })
})

it('refuses limits that cannot be', () => {
  const draft = draftOf(balance)
  expect(limitsOf({ ...draft, low: '1h', release: '2h' }, balance)).toMatchObject({ ready: false, wrong: { release: 'Not before the first warning.' } })
  expect(limitsOf({ ...draft, line: '-5' }, balance).ready).toBe(false)
  expect(limitsOf({ ...draft, grace: '31d' }, balance).ready).toBe(false)
  expect(limitsOf({ ...draft, line: '', low: '', release: '' }, balance)).toMatchObject({ ready: true, body: { low_seconds: 0, release_seconds: 0 } })
})
