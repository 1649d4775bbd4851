import { asRefusal, type Problem } from '../api/client'

/**
 * standing is what is known of the session: it is asked for, somebody is in, their
 * session has ended, nobody is in, or the control plane was not heard. Who is in
 * stays in when a later question fails: only a refusal ends a session.
 */
export function standing({ data, error }: { data?: unknown; error: unknown }): 'asking' | 'in' | 'ended' | 'out' | 'unheard' {
  const refused = !!error && asRefusal(error).status === 401
  if (data) return refused ? 'ended' : 'in'
  if (!error) return 'asking'
  return refused ? 'out' : 'unheard'
}

// A session is a token to the control plane; people know it as their session.
const reasons: Record<string, string> = {
  token_missing: 'It expired, or you signed out in another tab.',
  token_expired: 'It expired.',
  token_invalid: 'You signed out elsewhere, or the access it was based on was revoked.',
}

/** whyEnded says why a session is no more. */
export function whyEnded({ code, detail }: Pick<Problem, 'code' | 'detail'>): string {
  return reasons[code] ?? `The control plane says: ${detail}.`
}
