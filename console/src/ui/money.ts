// The digits of minor units, as the package currency of the contract has them: browsers know others for some.
const noDigits = 'BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF'.split(' ')
const threeDigits = 'BHD IQD JOD KWD LYD OMR TND'.split(' ')

const digitsOf = (currency: string) => (noDigits.includes(currency) ? 0 : threeDigits.includes(currency) ? 3 : 2)

/** money writes minor units as people read them: 350 of USD is 3.50 USD. */
export function money(minor: number, currency: string): string {
  const digits = digitsOf(currency)
  return `${(minor / 10 ** digits).toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${currency}`
}

/** minorOf reads an amount as people write it into minor units, or says what is wrong with it. Nothing is rounded. */
export function minorOf(text: string, currency: string): { minor?: number; wrong?: string } {
  const digits = digitsOf(currency)
  const [, whole = '', part = ''] = /^(\d{1,15})(?:\.(\d+))?$/.exec(text.trim()) ?? []
  if (!whole) return { wrong: digits > 0 ? `An amount such as 12.${'05'.padEnd(digits, '0')}.` : 'An amount such as 12.' }
  if (part.length > digits) return { wrong: digits > 0 ? `Amounts in ${currency} have at most ${digits} decimal places.` : `Amounts in ${currency} have no decimal places.` }
  const minor = Number(whole + part.padEnd(digits, '0'))
  return minor <= 1_000_000_000_000_000 ? { minor } : { wrong: 'This amount is too large.' }
}
