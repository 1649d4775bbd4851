import { modeWords, type Choices, type Mode } from './modes'
import type { Selector } from './selector'

export type FittingNode = { node_id: string; hostname: string; status: string }

/** meantOf is which of the nodes that fit are going to be operated on. */
export function meantOf<T extends FittingNode>(fitting: T[], from: string[] | undefined, skip: boolean): T[] {
  return skip && from ? fitting.filter((n) => from.includes(n.status)) : fitting
}

export const nodesInWords = (count: number) => (count === 1 ? '1 node' : `${count} nodes`)

/** confirmationOf is what has to be typed before many nodes are turned over: it says how many they are. */
export function confirmationOf(mode: Mode, count: number): string {
  return `${modeWords(mode).title.toLowerCase()} ${nodesInWords(count)}`
}

/** subjectOf tells what a confirmation is about: what is done, how thoroughly, and to which nodes. */
export function subjectOf(mode: Mode, choices: Choices, selector: Selector, meant: FittingNode[]): string {
  return JSON.stringify([mode, choices, selector, meant.map((n) => n.node_id).sort()])
}
