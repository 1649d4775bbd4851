/** A message of a stream of server-sent events. */
export type Message = { id: string; event: string; data: string }

/**
 * SSEParser takes a stream of server-sent events apart, as it comes in pieces.
 * The browser's own reader hides signs of life and the status of a refusal, and
 * both are needed to tell a quiet stream from a dead one.
 */
export class SSEParser {
  private rest = ''
  private id = ''
  private event = ''
  private data: string[] = []
  private onMessage: (m: Message) => void

  constructor(onMessage: (m: Message) => void) {
    this.onMessage = onMessage
  }

  push(text: string) {
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/)
    this.rest = lines.pop() ?? ''
    for (const line of lines) this.line(line)
  }

  private line(line: string) {
    if (line === '') {
      if (this.data.length) this.onMessage({ id: this.id, event: this.event || 'message', data: this.data.join('\n') })
      this.event = ''
      this.data = []
      return
    }
    const colon = line.indexOf(':')
    if (colon === 0) return // a comment: a sign of life
    const field = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (field === 'data') this.data.push(value)
    else if (field === 'event') this.event = value
    else if (field === 'id') this.id = value
  }
}

/**
 * readStream reads a stream until it ends, and fails when it does not open, breaks
 * or is silent for too long.
 */
export async function readStream(
  url: string,
  options: { signal: AbortSignal; silentFor: number; onOpen: () => void; /** Told of every sign of life. */ onAlive?: () => void; onMessage: (m: Message) => void; refused: (r: Response) => Promise<Error> },
) {
  const quiet = new AbortController()
  const signal = AbortSignal.any([options.signal, quiet.signal])
  let watchdog: ReturnType<typeof setTimeout> | undefined
  const alive = () => {
    clearTimeout(watchdog)
    watchdog = setTimeout(() => quiet.abort(new Error('the stream is silent')), options.silentFor)
  }
  alive()
  try {
    const response = await fetch(url, { headers: { Accept: 'text/event-stream' }, credentials: 'same-origin', signal, cache: 'no-store' })
    if (!response.ok || !response.body) throw await options.refused(response)
    options.onOpen()
    const parser = new SSEParser(options.onMessage)
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      alive()
      options.onAlive?.()
      parser.push(value)
    }
  } finally {
    clearTimeout(watchdog)
  }
}
