import type { Schemas } from '../../api/client'

/** What somebody has typed of the credentials of a site. */
export type Typed = { api_token: string; deploy_password: string; user: string; pass: string }

export const nothing: Typed = { api_token: '', deploy_password: '', user: '', pass: '' }

/** bodyFrom is what is sent: only what was typed. */
export function bodyFrom(typed: Typed): Schemas['SiteCredentialsBody'] {
  const { api_token, deploy_password, user, pass } = typed
  return {
    ...(api_token.trim() && { api_token: api_token.trim() }),
    ...(deploy_password && { deploy_password }),
    ...((user || pass) && { power: { user: user.trim(), pass } }),
  }
}

/** wrongWith says what is wrong with what was typed, by its field. */
export function wrongWith({ api_token, user, pass }: Typed): Partial<Typed> {
  return {
    ...(api_token.trim() && api_token.trim().split(':').length !== 3 && { api_token: 'must be of the form consumer:token:secret, as MAAS shows it' }),
    ...(pass && !user.trim() && { user: 'must not be empty' }),
    ...(user.trim() && !pass && { pass: 'must not be empty' }),
  }
}

/** unheard tells whether a refusal says nothing about what was sent: nobody answered, or what answered is broken. */
export function unheard(status: number): boolean {
  return status === 0 || status >= 500
}

/**
 * keptAfter is what stays in the form after it was not taken. A secret that was refused
 * does not stay in the page; one that nobody has judged need not be typed again.
 */
export function keptAfter(typed: Typed, status: number): Typed {
  return unheard(status) ? typed : { ...nothing, user: typed.user }
}
