import { describe, expect, it, vi } from 'vitest'
import { between, endingOf, Session, type Ending } from './session'

class FakeSocket {
  static last: FakeSocket
  sent: (string | Uint8Array)[] = []
  binaryType = ''
  closed = false
  onmessage?: (m: { data: ArrayBuffer | string }) => void
  onclose?: (e: { code: number }) => void
  constructor(
    readonly url: URL,
    readonly protocols: string[],
  ) {
    FakeSocket.last = this
  }
  send(data: string | Uint8Array) {
    this.sent.push(data)
  }
  close() {
    this.closed = true
  }
  says(frame: object) {
    this.onmessage?.({ data: JSON.stringify(frame) })
  }
}

function begin() {
  const ready = vi.fn()
  const shown = vi.fn()
  const over = vi.fn<(why: Ending) => void>()
  const session = new Session({ token: 'secret', websocket_path: '/ws/terminal/1' }, { ready, shown, over }, 'https://plane.example', FakeSocket as unknown as typeof WebSocket)
  return { session, socket: FakeSocket.last, ready, shown, over }
}

describe('a terminal session', () => {
  it('sends its token in a subprotocol and never in the address', () => {
    const { socket } = begin()
    expect(socket.url.href).toBe('wss://plane.example/ws/terminal/1')
    expect(socket.protocols).toEqual(['gpuaas.terminal.v1', 'bearer.secret'])
    expect(socket.binaryType).toBe('arraybuffer')
  })

  it('types and resizes once there is a shell', () => {
    const { session, socket, ready, shown } = begin()
    session.resize(80, 24)
    expect(socket.sent).toEqual([])
    socket.says({ type: 'session_ready', session_id: '1' })
    expect(ready).toHaveBeenCalledOnce()
    session.type('ls é\r')
    session.resize(5000, 24)
    expect(new TextDecoder().decode(socket.sent[0] as Uint8Array)).toBe('ls é\r')
    expect(JSON.parse(socket.sent[1] as string)).toEqual({ type: 'resize', cols: 1000, rows: 24 })
    socket.onmessage?.({ data: new TextEncoder().encode('hi').buffer })
    expect(shown).toHaveBeenCalledWith(new TextEncoder().encode('hi'))
  })

  it('keeps what is typed while it opens, whole or not at all', () => {
    const early = begin()
    early.session.type('echo 01')
    early.session.type('23\r')
    expect(early.socket.sent).toEqual([])
    early.socket.says({ type: 'session_ready', session_id: '1' })
    early.session.type('ls\r')
    expect(early.socket.sent.map((s) => new TextDecoder().decode(s as Uint8Array))).toEqual(['echo 0123\r', 'ls\r'])

    const much = begin()
    much.session.type('x'.repeat(20 << 10))
    much.session.type('y')
    much.socket.says({ type: 'session_ready', session_id: '1' })
    expect(much.socket.sent).toEqual([])
  })

  it('cuts what is pasted into messages that the control plane accepts', () => {
    const { session, socket } = begin()
    socket.says({ type: 'session_ready' })
    session.type('x'.repeat(100_000))
    expect(socket.sent.length).toBe(7)
    expect(socket.sent.every((m) => m.length <= 16_384)).toBe(true)
    expect(socket.sent.reduce((n, m) => n + m.length, 0)).toBe(100_000)
  })

  it('says once why it is over', () => {
    const { session, socket, over } = begin()
    socket.says({ type: 'session_ready' })
    socket.says({ type: 'session_closed', reason: 'idle_limit' })
    socket.onclose?.({ code: 4408 })
    session.type('after')
    expect(over).toHaveBeenCalledOnce()
    expect(over.mock.calls[0]?.[0].remedy).toContain('tmux')
    expect(socket.sent).toEqual([])
  })

  it('tells a refused token from a lost connection', () => {
    const refused = begin()
    refused.socket.onclose?.({ code: 4401 })
    expect(refused.over.mock.calls[0]?.[0].text).toContain('token')
    const gone = begin()
    gone.socket.onclose?.({ code: 1006 })
    expect(gone.over.mock.calls[0]?.[0].text).toContain('lost')
  })

  it('ends the shell when it is closed here', () => {
    const { session, socket, over } = begin()
    socket.says({ type: 'session_ready' })
    session.close()
    expect(socket.sent).toEqual(['{"type":"close"}'])
    expect(socket.closed).toBe(true)
    expect(over.mock.calls[0]?.[0].wanted).toBe(true)
  })
})

describe('endings', () => {
  it('repeat what the node said', () => {
    expect(endingOf({ type: 'session_error', message: 'there is no user alice', remedy: 'make one' })).toEqual({ text: 'The terminal was not opened: there is no user alice.', remedy: 'make one' })
    expect(endingOf({ type: 'session_closed', reason: 'shell_ended', exit_status: 3 }).text).toBe('The shell has ended with status 3.')
    expect(endingOf({ type: 'session_closed', reason: 'something_new' }).text).toContain('something_new')
  })
})

it('keeps sizes within what the API accepts', () => {
  expect([between(0), between(80.4), between(9999)]).toEqual([1, 80, 1000])
})
