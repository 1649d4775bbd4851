import { describe, expect, it } from 'vitest'
import { SSEParser, type Message } from './sse'

function parsed(...pieces: string[]): Message[] {
  const out: Message[] = []
  const parser = new SSEParser((m) => out.push(m))
  for (const p of pieces) parser.push(p)
  return out
}

describe('SSEParser', () => {
  it('reads messages however they are cut', () => {
    const text = 'id: 7\nevent: event\ndata: {"a":1}\n\n: alive\n\nid: 8\nevent: position\ndata: {}\n\n'
    const want = [
      { id: '7', event: 'event', data: '{"a":1}' },
      { id: '8', event: 'position', data: '{}' },
    ]
    expect(parsed(text)).toEqual(want)
    for (let cut = 1; cut < text.length; cut++) expect(parsed(text.slice(0, cut), text.slice(cut))).toEqual(want)
  })

  it('takes signs of life and unfinished messages for no message', () => {
    expect(parsed(': open\n\n', ': alive\n\n', 'id: 9\ndata: half')).toEqual([])
  })

  it('joins lines of data and knows every kind of line end', () => {
    expect(parsed('data: a\r\ndata: b\r\n\r\n')).toEqual([{ id: '', event: 'message', data: 'a\nb' }])
    expect(parsed('data:a\ndata\n\n')).toEqual([{ id: '', event: 'message', data: 'a\n' }])
  })
})
