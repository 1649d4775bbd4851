import { expect, it } from 'vitest'
import { enums } from '../../api/gen/enums'
import { discountWords, kindWords, mayCorrect, shareOf } from './entries'

it('has words for every kind of entry', () => {
  for (const kind of enums['list-ledger.kind']) expect(kindWords(kind), kind).toMatch(/^[A-Z]/)
})

it('writes discounts', () => {
  expect(discountWords(10_000)).toBe('none: it pays full prices')
  expect(discountWords(8_500)).toBe('15 %')
  expect(discountWords(8_525)).toBe('14.75 %')
})

it('reads discounts', () => {
  expect(shareOf('0')).toEqual({ share: 10_000 })
  expect(shareOf('15')).toEqual({ share: 8_500 })
  expect(shareOf(' 14.75 ')).toEqual({ share: 8_525 })
  expect(shareOf('7.5')).toEqual({ share: 9_250 })
  expect(shareOf('100')).toEqual({ share: 0 })
  for (const wrong of ['', '-1', '101', '100.01', '1.005', 'NaN', '1e1', '15 %']) expect(shareOf(wrong).wrong, wrong).toBeTruthy()
})

it('corrects an entry once', () => {
  expect(mayCorrect({})).toBe(true)
  expect(mayCorrect({ corrected_by: 'e' })).toBe(false)
})
