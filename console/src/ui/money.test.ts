import { expect, it } from 'vitest'
import { minorOf, money } from './money'

it('knows how many minor units a currency has', () => {
  expect(money(350, 'USD')).toBe('3.50 USD')
  expect(money(-5, 'USD')).toBe('-0.05 USD')
  expect(money(123456789, 'EUR')).toBe('1,234,567.89 EUR')
  expect(money(350, 'JPY')).toBe('350 JPY')
  expect(money(12345, 'IQD')).toBe('12.345 IQD') // of which browsers think otherwise
})

it.each([
  ['3.50', 'USD', 350],
  ['3.5', 'USD', 350],
  ['0', 'USD', 0],
  [' 12 ', 'USD', 1200],
  ['12', 'JPY', 12],
  ['1.005', 'KWD', 1005],
  ['0.29', 'USD', 29], // as a fraction of two it would be 28.999999999999996
])('reads %s of %s', (text, currency, minor) => expect(minorOf(text, currency)).toEqual({ minor }))

it.each([
  ['', 'USD'],
  ['-1', 'USD'],
  ['1.', 'USD'],
  ['1,50', 'USD'],
  ['1e3', 'USD'],
  ['NaN', 'USD'],
  ['1.005', 'USD'],
  ['1.5', 'JPY'],
  ['99999999999999', 'USD'],
])('refuses %j of %s', (text, currency) => expect(minorOf(text, currency).wrong).toBeTruthy())
