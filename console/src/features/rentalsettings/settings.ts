import type { Schemas } from '../../api/client'
import { readLife, writeLife } from '../../ui/life'
import { span } from '../../ui/time'

export type Settings = Schemas['RentalsettingsView']
export type Values = Schemas['RentalsettingsValuesBody']

/** Draft is what a form has of the settings: each is left to others, or set here. */
export type Draft = { usual: 'left' | 'never' | 'set'; usualLife: string; most: 'left' | 'set'; mostLife: string; root: 'left' | 'yes' | 'no' }

const shortest = 300

/** draftOf is the form of what is set here now. */
export function draftOf(s: Pick<Settings, 'default_expiry_seconds' | 'max_expiry_seconds' | 'root_access'>): Draft {
  const { default_expiry_seconds: usual, max_expiry_seconds: most, root_access: root } = s
  return {
    usual: usual === undefined ? 'left' : usual === 0 ? 'never' : 'set',
    usualLife: usual ? writeLife(usual) : '7d',
    most: most === undefined ? 'left' : 'set',
    mostLife: most === undefined ? '30d' : writeLife(most),
    root: root === undefined ? 'left' : root ? 'yes' : 'no',
  }
}

/** valuesOf reads a form as what is sent, or says what is wrong with it. */
export function valuesOf(d: Draft): { body: Values; wrong: { usual?: string; most?: string } } {
  const usual = d.usual === 'set' ? needed(readLife(d.usualLife)) : {}
  const most = d.most === 'set' ? needed(readLife(d.mostLife, { least: shortest })) : {}
  const longer = usual.seconds !== undefined && most.seconds !== undefined && usual.seconds > most.seconds
  return {
    body: {
      ...(d.usual !== 'left' && { default_expiry_seconds: d.usual === 'never' ? 0 : usual.seconds }),
      ...(d.most !== 'left' && { max_expiry_seconds: most.seconds }),
      ...(d.root !== 'left' && { root_access: d.root === 'yes' }),
    },
    wrong: { usual: usual.wrong ?? (longer ? 'Longer than the longest life.' : undefined), most: most.wrong },
  }
}

const needed = (read: ReturnType<typeof readLife>): ReturnType<typeof readLife> => (read.seconds === undefined && !read.wrong ? { wrong: 'Say how long.' } : read)

/** lasting says how long something lasts; 0 has no end. */
export const lasting = (seconds: number, forEver: string) => (seconds === 0 ? forEver : span(seconds))

type From = Settings['in_force']['default_expiry_from']

const fromWords: Record<From, string> = { platform: 'as the platform has it', tenant: 'set by the tenant', project: 'set by the project' }

/** settledBy says who settled something. */
export const settledBy = (from: From) => fromWords[from]
