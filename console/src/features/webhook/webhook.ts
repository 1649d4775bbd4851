import type { Schemas } from '../../api/client'
import { enums } from '../../api/gen/enums'
import type { Tone } from '../../ui/tone'

export type Webhook = Schemas['WebhookView']
export type Delivery = Schemas['WebhookDeliveryView']

/** progresses are how far a delivery can have come. */
export const progresses = enums['WebhookDeliveryView.status']

/** standing is how a webhook does, in a word and its colour. */
export function standing(w: Pick<Webhook, 'status' | 'failing_since' | 'last_delivered_at'>): { word: string; tone: Tone } {
  if (w.status === 'disabled') return { word: 'disabled', tone: 'bad' }
  if (w.failing_since) return { word: 'failing', tone: 'warn' }
  return w.last_delivered_at ? { word: 'delivering', tone: 'ok' } : { word: 'enabled', tone: 'info' }
}

export const progressTone: Record<Delivery['status'], Tone> = { waiting: 'info', delivered: 'ok', failed: 'bad' }

/** told says what a webhook is told. */
export const told = (kinds: string[]) => (kinds.length === 0 ? 'all events of the project' : kinds.join(', '))

/** kindsOf reads kinds of events, one a line or with commas or blanks between. */
export const kindsOf = (text: string) => [...new Set(text.split(/[\s,]+/).filter(Boolean))]

/** wrongAddress says what cannot be posted to. Whether an address may be called, the control plane decides. */
export function wrongAddress(url: string): string | undefined {
  const typed = url.trim()
  if (typed === '') return undefined
  if (!URL.canParse(typed)) return 'A whole address, such as https://hooks.example.com/gpuaas.'
  const { protocol, username, password } = new URL(typed)
  if (protocol !== 'https:' && protocol !== 'http:') return 'An address that begins with https://.'
  return username || password ? 'Without a name and a password: what is posted is signed.' : undefined
}

/** answer says what the receiver answered last. */
export function answer(d: Pick<Delivery, 'answer_code' | 'duration_ms' | 'failure'>): string {
  if (d.answer_code) return `${d.answer_code}${d.duration_ms === undefined ? '' : ` in ${d.duration_ms} ms`}`
  return d.failure ? 'none' : ''
}

/** refusedKinds is what was refused about any of the kinds. */
export const refusedKinds = (fields: Record<string, string>) =>
  Object.entries(fields)
    .filter(([path]) => path === 'kinds' || path.startsWith('kinds['))
    .map(([, why]) => why)[0]
