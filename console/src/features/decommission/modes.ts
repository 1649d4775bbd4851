import type { Schemas } from '../../api/client'

export type Mode = Schemas['DecommissionView']['mode']

/** What a mode is, in words. */
export type ModeWords = { title: string; what: string }

const words: Record<Mode, ModeWords> = {
  soft_reset: { title: 'Soft reset', what: 'Cleans the node for the next tenant: removes what a tenant left on disks and in GPU memory, and verifies that.' },
  reimage: { title: 'Reimage', what: 'Releases the machine, erases its disks as chosen below and reinstalls it. The node keeps its id.' },
  full_decommission: { title: 'Full decommission', what: 'Permanently removes the node from the inventory: the machine is released, its disks are erased as chosen below, and it is switched off.' },
  storage_cleanup: { title: 'Storage cleanup', what: 'Removes what tenants left on the storage of the node, and nothing else.' },
  drain: { title: 'Drain', what: 'Removes the accounts of tenants and takes the node out of service. Nothing is cleaned, and a rental ends only if you choose that under More choices.' },
  retire: { title: 'Retire', what: 'Removes tenants, cleans the node and takes it out of service. You can reactivate it.' },
  reactivate: { title: 'Reactivate', what: 'Brings a retired node back into service. One that is not proven clean is cleaned first.' },
  remove: { title: 'Remove', what: 'Permanently removes a retired node, or one that never enrolled, from the inventory. Its machine is not touched.' },
}

export const modes = Object.keys(words) as Mode[]

export function modeWords(mode: Mode): ModeWords {
  return words[mode]
}

export function isMode(text: string | undefined): text is Mode {
  return text !== undefined && text in words
}

export type Choices = {
  erase: 'none' | 'quick' | 'secure'
  cleanup: 'none' | 'local' | 'weka' | 'all'
  /** Profile to install by; absent: the one that the node belongs to. */
  profile?: string
  /** Quarantine the node when it is ready. */
  keepOut?: boolean
  /** Accept the machine only if it has the hardware of its SKU. */
  match?: boolean
  /** End what a tenant has on the node: at once, or as announced maintenance permits. Absent: nothing is begun while somebody rents it. */
  tenant?: 'end' | 'announced'
  /** Pass over what only the agent could do; needs the risk that is accepted. */
  withoutAgent?: boolean
  risk?: string
}

/** takesInstall says whether a mode installs the machine anew. */
export const takesInstall = (mode: Mode) => mode === 'reimage'

/** takesEnd says whether a mode can end what a tenant has on the node. */
export const takesEnd = (mode: Mode) => mode !== 'reactivate' && mode !== 'remove' && mode !== 'storage_cleanup'

/** isFinal says whether a mode takes nodes out of the inventory for good. */
export const isFinal = (mode: Mode) => mode === 'full_decommission'

/** takesErase says whether a mode releases the machine in MAAS, which can erase its disks. */
export const takesErase = (mode: Mode) => mode === 'reimage' || mode === 'full_decommission'

/** takesCleanup says whether a mode lets one choose what the agent removes of what tenants left. */
export const takesCleanup = (mode: Mode) => mode === 'soft_reset' || mode === 'reimage' || mode === 'storage_cleanup'

export const eraseWords: Record<Choices['erase'], string> = {
  none: 'Disks are released as they are.',
  quick: 'Erases only the beginning and the end of each disk. Tools can still read the rest.',
  secure: 'Erases each disk completely with the best method it supports. May take hours.',
}

export const cleanupWords: Record<Choices['cleanup'], string> = {
  none: 'Nothing is removed.',
  local: 'Destroys temporary and scratch folders and everything on data disks.',
  weka: 'Weka file systems are unmounted, and the client’s state and cache are removed; the data on Weka is not touched.',
  all: 'Both: destroys local folders and data disks, and unmounts Weka.',
}

/** destroys says whether a plan ends something that cannot be brought back. */
export function destroys(effects: string[]): boolean {
  return effects.some((e) => e.includes('DESTROYS') || e.includes('for good'))
}

/** mayDestroy says the same of a mode before there is a plan: of many nodes nobody reads each plan. */
export function mayDestroy(mode: Mode, { cleanup }: Choices): boolean {
  return mode !== 'drain' && !(mode === 'storage_cleanup' && cleanup === 'weka')
}
