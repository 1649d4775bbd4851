import type { Schemas } from '../../api/client'

/** Opened is what opens one session, once. */
export type Opened = Schemas['TerminalToken']

/** Ending is why a session is over, for a person. */
export type Ending = { text: string; remedy?: string; /** It ended as whoever typed wanted it to. */ wanted?: boolean }

type Frame = { type: string; code?: string; message?: string; remedy?: string; reason?: string; exit_status?: number }

const protocol = 'gpuaas.terminal.v1'
const mostAtOnce = 16 << 10

const endings: Record<string, Ending> = {
  shell_ended: { text: 'The shell has ended.', wanted: true },
  user_closed: { text: 'You closed the terminal.', wanted: true },
  user_lost: { text: 'The connection of this browser was lost.', remedy: 'Open a new one.' },
  node_lost: { text: 'The connection to the node was lost.', remedy: 'Open a new one when the node answers again.' },
  idle_limit: { text: 'Nothing was typed or shown for too long.', remedy: 'Work that takes long is safe in a terminal multiplexer, such as tmux.' },
  total_limit: { text: 'It was open for as long as it may.', remedy: 'Open a new one.' },
  stalled: { text: 'This browser did not keep up with what was shown.', remedy: 'Open a new one.' },
  gateway_shutdown: { text: 'The control plane restarts.', remedy: 'Open a new one in a moment.' },
  user_removed: { text: 'The account on the node was removed.' },
  closed_by_operator: { text: 'An operator closed it.' },
  node_emptied: { text: 'The node is being emptied.' },
}

/** endingOf says why a session is over. */
export function endingOf(frame: Frame): Ending {
  if (frame.type === 'session_error') return { text: `The terminal was not opened: ${frame.message ?? frame.code ?? 'no reason was given'}.`, remedy: frame.remedy }
  if (frame.reason === 'access_lost') return { text: `You may no longer have it: ${frame.message ?? frame.code ?? ''}.`, remedy: frame.remedy }
  const known = endings[frame.reason ?? '']
  if (known) return frame.exit_status ? { ...known, text: `The shell has ended with status ${frame.exit_status}.` } : known
  return { text: `The terminal was closed: ${frame.reason ?? 'no reason was given'}.`, remedy: 'Open a new one.' }
}

/** lost says what a connection means that ended without a word. */
export function lost(code: number): Ending {
  if (code === 4401) return { text: 'The control plane does not accept the token of the terminal.', remedy: 'Open a new one.' }
  return { text: 'The connection to the terminal was lost.', remedy: 'Open a new one. A proxy on the way must pass websockets on.' }
}

type Handlers = { ready: () => void; shown: (bytes: Uint8Array) => void; over: (why: Ending) => void }

/** Session carries what is typed and shown between this browser and a node. */
export class Session {
  private socket: WebSocket
  private open = false
  private ended = false
  private early = ''
  private tooMuch = false
  private on: Handlers

  constructor(opened: Pick<Opened, 'token' | 'websocket_path'>, on: Handlers, origin = window.location.origin, Socket = WebSocket) {
    this.on = on
    // The token goes into a header, never into an address.
    this.socket = new Socket(new URL(opened.websocket_path, origin.replace(/^http/, 'ws')), [protocol, `bearer.${opened.token}`])
    this.socket.binaryType = 'arraybuffer'
    this.socket.onmessage = (m: MessageEvent<ArrayBuffer | string>) => this.received(m.data)
    this.socket.onclose = (e) => this.over(lost(e.code))
  }

  /** type sends keys. What is typed before there is a shell waits for it, all or nothing: half a line is worse than none. */
  type(text: string) {
    if (this.ended) return
    if (!this.open) {
      this.early = this.tooMuch ? '' : this.early + text
      this.tooMuch ||= this.early.length > mostAtOnce
      return
    }
    const bytes = new TextEncoder().encode(text)
    for (let at = 0; at < bytes.length; at += mostAtOnce) this.socket.send(bytes.subarray(at, at + mostAtOnce))
  }

  resize(cols: number, rows: number) {
    if (this.open) this.socket.send(JSON.stringify({ type: 'resize', cols: between(cols), rows: between(rows) }))
  }

  /** close ends the session, and its shell. */
  close() {
    if (this.open) this.socket.send(JSON.stringify({ type: 'close' }))
    this.over(endingOf({ type: 'session_closed', reason: 'user_closed' }))
    this.socket.close()
  }

  private received(data: ArrayBuffer | string) {
    if (typeof data !== 'string') return this.on.shown(new Uint8Array(data))
    const frame = JSON.parse(data) as Frame
    if (frame.type === 'session_ready') {
      this.open = true
      this.on.ready()
      if (!this.tooMuch && this.early) this.type(this.early)
      this.early = ''
    } else if (frame.type === 'session_error' || frame.type === 'session_closed') this.over(endingOf(frame))
  }

  private over(why: Ending) {
    if (this.ended) return
    this.ended = true
    this.open = false
    this.on.over(why)
  }
}

/** between is a width or height that the API accepts. */
export const between = (n: number) => Math.min(Math.max(Math.round(n), 1), 1000)
