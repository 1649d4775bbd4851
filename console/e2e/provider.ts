import { createHash, createSign, generateKeyPairSync, randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export const clientID = 'gpuaas-console'

/** People who can sign in; the login_hint of the page that the provider shows. */
export type Person = { sub: string; email: string; name: string }

/**
 * startProvider is an identity provider that asks nothing but who one wants to be:
 * enough of OpenID Connect (code flow with PKCE, RS256) for a relying party that
 * verifies everything, which ours does.
 */
export async function startProvider(people: Person[]): Promise<{ issuer: string; stop: () => void }> {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const codes = new Map<string, { person: Person; nonce: string; challenge: string; redirect: string }>()
  let issuer = ''

  const token = (person: Person, nonce: string) => {
    const now = Math.floor(Date.now() / 1000)
    const part = (v: unknown) => Buffer.from(JSON.stringify(v)).toString('base64url')
    const text = `${part({ alg: 'RS256', kid: 'k1' })}.${part({ iss: issuer, aud: clientID, iat: now, exp: now + 300, nonce, email_verified: true, ...person })}`
    return `${text}.${createSign('RSA-SHA256').update(text).sign(privateKey, 'base64url')}`
  }
  const json = (w: ServerResponse, status: number, body: unknown) => {
    w.writeHead(status, { 'Content-Type': 'application/json' })
    w.end(JSON.stringify(body))
  }

  const pages: Record<string, (q: URLSearchParams, w: ServerResponse, r: IncomingMessage) => void | Promise<void>> = {
    '/.well-known/openid-configuration': (_, w) =>
      json(w, 200, {
        issuer,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        jwks_uri: `${issuer}/keys`,
        response_types_supported: ['code'],
        subject_types_supported: ['public'],
        id_token_signing_alg_values_supported: ['RS256'],
        code_challenge_methods_supported: ['S256'],
      }),
    '/keys': (_, w) => json(w, 200, { keys: [{ ...publicKey.export({ format: 'jwk' }), kid: 'k1', alg: 'RS256', use: 'sig' }] }),
    '/authorize': (q, w) => {
      w.writeHead(200, { 'Content-Type': 'text/html; charset=utf-8' })
      const choice = (p: Person) => `<p><a href="/chosen?${new URLSearchParams([...q, ['who', p.sub]]).toString().replaceAll('&', '&amp;')}">${p.name}</a></p>`
      w.end(`<!doctype html><title>Who are you?</title>${people.map(choice).join('')}`)
    },
    '/chosen': (q, w) => {
      const person = people.find((p) => p.sub === q.get('who'))
      const redirect = new URL(q.get('redirect_uri') ?? '')
      if (!person || q.get('code_challenge_method') !== 'S256') return json(w, 400, { error: 'invalid_request' })
      const code = randomBytes(16).toString('hex')
      codes.set(code, { person, nonce: q.get('nonce') ?? '', challenge: q.get('code_challenge') ?? '', redirect: redirect.href })
      redirect.searchParams.set('code', code)
      redirect.searchParams.set('state', q.get('state') ?? '')
      w.writeHead(302, { Location: redirect.href })
      w.end()
    },
    '/token': async (_, w, r) => {
      let text = ''
      for await (const chunk of r) text += String(chunk)
      const form = new URLSearchParams(text)
      const code = form.get('code') ?? ''
      const known = codes.get(code)
      codes.delete(code)
      const challenge = createHash('sha256').update(form.get('code_verifier') ?? '').digest('base64url')
      if (!known || challenge !== known.challenge || form.get('redirect_uri') !== known.redirect) return json(w, 400, { error: 'invalid_grant' })
      json(w, 200, { access_token: randomBytes(16).toString('hex'), token_type: 'Bearer', expires_in: 300, id_token: token(known.person, known.nonce) })
    },
  }
  const server = createServer((r, w) => {
    const url = new URL(r.url ?? '/', issuer)
    const page = pages[url.pathname]
    if (!page) return json(w, 404, { error: 'not_found' })
    void page(url.searchParams, w, r)
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    issuer,
    stop: () => {
      server.close()
      server.closeAllConnections()
    },
  }
}
