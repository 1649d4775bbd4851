type Send = (request: Request) => Promise<Response>

// How long a change whose answer was lost is taken for the same when it is sent again.
const rememberFor = 10 * 60_000

/** newKey is a key that nobody has used; also where the page came by plain HTTP, which has no randomUUID. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('')
}

/**
 * keyed sends each change with a key of its own. One whose answer was lost keeps its
 * key: when the same is sent again, it is not made twice.
 */
export function keyed(send: Send, now: () => number = Date.now): Send {
  const lost = new Map<string, { key: string; until: number }>()
  return async (request) => {
    // Signing in and out may happen twice, and what it is done with is not kept.
    if (request.method === 'GET' || request.headers.has('Idempotency-Key') || new URL(request.url).pathname.startsWith('/api/v1/auth/')) return send(request)
    for (const [change, { until }] of lost) if (until <= now()) lost.delete(change)
    const change = JSON.stringify([request.method, request.url, request.headers.get('If-Match'), await request.clone().text()])
    const key = lost.get(change)?.key ?? newKey()
    request.headers.set('Idempotency-Key', key)
    lost.set(change, { key, until: now() + rememberFor })
    const response = await send(request) // whoever throws here had no answer
    if (settles(response)) lost.delete(change)
    return response
  }
}

/** settles says whether an answer tells what became of the change. */
function settles({ status, headers }: Response): boolean {
  // The first request with the key is still being carried out.
  const stillAtIt = status === 409 && headers.has('Retry-After')
  return status < 500 && !stillAtIt
}
