import type { Schemas } from '../../api/client'
import { words } from '../../ui/tone'

export type Entry = Schemas['LedgerView']

const kinds: Record<string, string> = {
  credit: 'Money added',
  payment: 'Payment',
  refund: 'Refund',
  usage: 'Charge for use',
  relief: 'Compensation: the node could not be used',
  correction: 'Correction of another entry',
}

/** kindWords says what an entry of the ledger is. */
export const kindWords = (kind: string) => kinds[kind] ?? words(kind)

/** discountWords says what is taken off every price. */
export const discountWords = (paidShare: number) => (paidShare === 10_000 ? 'none: it pays full prices' : `${(10_000 - paidShare) / 100} %`)

/** shareOf reads a discount in percent as the share that is paid, in ten-thousandths. */
export function shareOf(discount: string): { share?: number; wrong?: string } {
  const [, whole = '', part = ''] = /^(\d{1,3})(?:\.(\d{1,2}))?$/.exec(discount.trim()) ?? []
  const share = 10_000 - Number(whole + part.padEnd(2, '0'))
  return whole && share >= 0 ? { share } : { wrong: 'From 0 to 100 percent, with two digits after the point at most.' }
}

/** mayCorrect says whether an entry can be reversed: each once. */
export const mayCorrect = (e: Pick<Entry, 'corrected_by'>) => !e.corrected_by
