import { expect, it } from 'vitest'
import { answer, kindsOf, refusedKinds, standing, told, wrongAddress } from './webhook'

it('says how a webhook does', () => {
  expect(standing({ status: 'enabled' })).toEqual({ word: 'enabled', tone: 'info' })
  expect(standing({ status: 'enabled', last_delivered_at: 'x' }).word).toBe('delivering')
  expect(standing({ status: 'enabled', failing_since: 'x', last_delivered_at: 'x' }).tone).toBe('warn')
  expect(standing({ status: 'disabled', failing_since: 'x' }).word).toBe('disabled')
})

it('reads kinds, and says what is told', () => {
  expect(kindsOf(' provisioning.*\nallocation.released, provisioning.* ')).toEqual(['provisioning.*', 'allocation.released'])
  expect(told([])).toBe('all events of the project')
  expect(refusedKinds({ url: 'no', 'kinds[1]': 'fits no type of events' })).toBe('fits no type of events')
  expect(refusedKinds({ url: 'no' })).toBeUndefined()
})

it('refuses addresses that are none', () => {
  expect(wrongAddress('')).toBeUndefined()
  expect(wrongAddress('https://hooks.example.com/x')).toBeUndefined()
  for (const wrong of ['hooks.example.com', 'ftp://hooks.example.com', 'https://me:secret@hooks.example.com']) expect(wrongAddress(wrong), wrong).toBeTruthy()
})

it('says what was answered', () => {
  expect(answer({ answer_code: 204, duration_ms: 12 })).toBe('204 in 12 ms')
  expect(answer({ failure: 'no answer' })).toBe('none')
  expect(answer({})).toBe('')
})
