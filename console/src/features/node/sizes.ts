const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']

/** bytes writes an amount of memory as people say it. */
export function bytes(n: number): string {
  let unit = 0
  let amount = n
  while (amount >= 1024 && unit < units.length - 1) {
    amount /= 1024
    unit++
  }
  return `${unit === 0 || amount >= 100 ? Math.round(amount) : Math.round(amount * 10) / 10} ${units[unit] ?? ''}`
}

/** speed writes megabits a second as a network interface is called by. */
export function speed(mbps: number): string {
  return mbps >= 1000 ? `${mbps / 1000} Gbit/s` : `${mbps} Mbit/s`
}
