import type { Schemas } from '../../api/client'

export type Spot = Schemas['FleetviewSpot']
export type Site = { site_id: string; name: string }

export type Rack = { key: string; label: string; spots: Spot[] }
export type Hall = { key: string; region: string; site?: Site; racks: Rack[]; total: number }

/** How many nodes with running numbers are taken for one rack. */
export const groupOf = 48

const slotted = /^(.*?)[-_.]?u(\d{1,3})$/i
const numbered = /^(.*?)(\d+)$/

/** A place as a hostname tells it: c07u31 is slot 31 of rack c07; gpu-00049 is the first of the second 48. */
export function placeOf(hostname: string): { rack: string; label: string; slot: number; order: number } {
  const bare = hostname.split('.', 1)[0] ?? hostname
  const slot = slotted.exec(bare)
  if (slot?.[1]) return { rack: slot[1], label: slot[1], slot: Number(slot[2]), order: Number(/(\d+)$/.exec(slot[1])?.[1] ?? 0) }
  const run = numbered.exec(bare)
  if (run) {
    const [, stem = '', digits = '0'] = run
    const number = Number(digits)
    // Numbers start with one, as people count; zero stands with the first ones.
    const group = Math.floor(Math.max(0, number - 1) / groupOf)
    const first = String(group * groupOf + 1).padStart(digits.length, '0')
    const last = String((group + 1) * groupOf).padStart(digits.length, '0')
    return { rack: `${stem}#${group}`, label: `${stem}${first}–${last}`, slot: number, order: group }
  }
  return { rack: '', label: 'others', slot: 0, order: Number.MAX_SAFE_INTEGER }
}

/** halls groups nodes by region and site, and within by rack; sites without nodes are halls too. */
export function halls(spots: Spot[], sites: (Site & { region_code: string })[]): Hall[] {
  const named = new Map(sites.map((s) => [s.site_id, s]))
  const out = new Map<string, { hall: Hall; racks: Map<string, Rack & { stem: string; order: number; slots: Map<string, number> }> }>()
  const hallOf = (region: string, siteId: string | undefined) => {
    const key = `${region}/${siteId ?? ''}`
    let entry = out.get(key)
    if (!entry) {
      const site = siteId ? { site_id: siteId, name: named.get(siteId)?.name ?? siteId } : undefined
      entry = { hall: { key, region, site, racks: [], total: 0 }, racks: new Map() }
      out.set(key, entry)
    }
    return entry
  }
  for (const site of sites) hallOf(site.region_code, site.site_id)
  for (const spot of spots) {
    const { hall, racks } = hallOf(spot.region_code, spot.site_id)
    const place = spot.rack ? { ...placeOf(spot.hostname), rack: spot.rack, label: spot.rack, order: Number(/(\d+)$/.exec(spot.rack)?.[1] ?? 0) } : placeOf(spot.hostname)
    let rack = racks.get(place.rack)
    if (!rack) {
      rack = { key: place.rack, label: place.label, spots: [], stem: place.rack.replace(/[#\d]+$/, ''), order: place.order, slots: new Map() }
      racks.set(place.rack, rack)
    }
    rack.spots.push(spot)
    rack.slots.set(spot.node_id, place.slot)
    hall.total++
  }
  for (const { hall, racks } of out.values()) {
    const sorted = [...racks.values()].sort((a, b) => compare(a.stem, b.stem) || a.order - b.order)
    hall.racks = sorted.map(({ key, label, spots: inRack, slots }) => ({
      key,
      label: trimmed(label, inRack),
      spots: inRack.sort((a, b) => (slots.get(a.node_id) ?? 0) - (slots.get(b.node_id) ?? 0) || compare(a.hostname, b.hostname)),
    }))
  }
  return [...out.values()].map((e) => e.hall).sort((a, b) => compare(a.region, b.region) || Number(!a.site) - Number(!b.site) || compare(a.site?.name ?? '', b.site?.name ?? ''))
}

const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0)

/** shared is what the hostnames of a rack begin with: searching for it finds them. */
export function shared(rack: Rack): string {
  const first = rack.spots[0]?.hostname ?? ''
  let length = first.length
  for (const { hostname } of rack.spots) while (!hostname.startsWith(first.slice(0, length))) length--
  return first.slice(0, length)
}

/** A run of numbers that holds one node is called as that node is. */
function trimmed(label: string, spots: Spot[]): string {
  const only = spots.length === 1 ? spots[0] : undefined
  return only && label.includes('–') ? (only.hostname.split('.', 1)[0] ?? label) : label
}

export type Changed = { node_id: string; status: Spot['status'] | 'deleted'; schedulable: boolean }

/** What an event said of a node, and when it came. */
export type Heard = { at: number; change: Changed }

/** caughtUp is a map that was just read, with what events said since the reading began: the answer may be older than they are. */
export function caughtUp(spots: Spot[], heard: Heard[], from: number): Spot[] {
  const known = new Set(spots.map((s) => s.node_id))
  const since = heard.filter((h) => h.at >= from && known.has(h.change.node_id)).map((h) => h.change)
  return since.length === 0 ? spots : (patched(spots, since) ?? spots)
}

/** patched is the map with what events said since it was read; undefined when it has to be read anew. */
export function patched(spots: Spot[], changes: Changed[]): Spot[] | undefined {
  const by = new Map(changes.map((c) => [c.node_id, c]))
  let met = 0
  const out: Spot[] = []
  for (const spot of spots) {
    const c = by.get(spot.node_id)
    if (!c) {
      out.push(spot)
      continue
    }
    met++
    if (c.status !== 'deleted') out.push({ ...spot, status: c.status, schedulable: c.schedulable })
  }
  return met === by.size ? out : undefined
}
