import { lifecycles } from './gen/enums'

/** What the lifecycle table of a noun says of a state. */
export type State = { name: string; meaning: string; terminal: boolean; tone: 'ok' | 'warn' | 'bad' | 'info' | 'idle'; traits: readonly string[]; events: readonly string[] }

type Known = Partial<State>

/** statesOf lists the states of a noun, as its lifecycle table has them: nothing in the console lists states. */
export function statesOf(noun: keyof typeof lifecycles): State[] {
  return Object.entries<Known>(lifecycles[noun]).map(([name, s]) => ({ name, meaning: s.meaning ?? '', terminal: s.terminal ?? false, tone: s.tone ?? 'idle', traits: s.traits ?? [], events: s.events ?? [] }))
}

const nodeStates = statesOf('node')

/** nodeIs says whether the state of a node has a trait, such as owned. */
export function nodeIs(status: string, trait: string): boolean {
  return nodeStates.some((s) => s.name === status && s.traits.includes(trait))
}

/** nodeMay says whether something may happen to a node in this state. */
export function nodeMay(status: string, event: string): boolean {
  return nodeStates.some((s) => s.name === status && s.events.includes(event))
}
