import { expect, it } from 'vitest'
import { readLife, writeLife } from './life'

it.each([
  ['12h', 43_200],
  ['7d', 604_800],
  [' 2 W ', 1_209_600],
  ['90m', 5_400],
  ['1.5', 5_400], // hours, as everywhere in the console
])('reads %s', (text, seconds) => expect(readLife(text)).toEqual({ seconds }))

it('takes nothing for nothing, and says what is wrong', () => {
  expect(readLife(' ')).toEqual({})
  for (const wrong of ['0', '-1', 'soon', '9000', '7days', '1d 2h', '30s']) expect(readLife(wrong).wrong, wrong).toBeTruthy()
  expect(readLife('1m', { least: 300 }).wrong).toBe('At least 5m.')
  expect(readLife('8d', { most: 604_800 }).wrong).toBe('At most 7d.')
})

it.each([604_800, 43_200, 5_400, 129_600, 300])('writes %i so that it can be read again', (seconds) => expect(readLife(writeLife(seconds))).toEqual({ seconds }))
