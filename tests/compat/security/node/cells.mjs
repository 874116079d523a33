// Reads what a program is to do, and reports it; ../cells.py says what a cell has.
import { readFileSync } from 'node:fs'

export const RECORDS = 20
export const PATIENCE_MS = 60_000
const REFUSED_WITHIN_MS = 10_000

export const valuesOf = cell => Array.from({ length: RECORDS }, (_, number) => `${cell.name} ${number}`)

export function equal(found, values) {
  if (found.join() !== values.join()) throw new Error(`read ${found.length} records that are not those sent`)
}

async function isRefused(cell, refused) {
  const begin = Date.now()
  try {
    await refused(cell)
  } catch (error) {
    if (Date.now() - begin > REFUSED_WITHIN_MS) throw new Error(`refused after ${Date.now() - begin} ms: ${error}`)
    return
  }
  throw new Error('it is let in')
}

/** Do each cell: `use` where it is let in; `refused` has to throw where its secret is wrong. */
export async function runCells(version, use, refused, lacking) {
  const cells = JSON.parse(readFileSync(process.argv[2], 'utf8')).filter(cell => !lacking.includes(cell.mechanism))
  console.log(`version ${version}`)
  console.log(`plan ${cells.map(cell => cell.name).join(' ')}`)
  for (const cell of cells) {
    try {
      await (cell.is_refused ? isRefused(cell, refused) : use(cell))
      console.log(`ok ${cell.name}`)
    } catch (error) {
      console.log(`failed ${cell.name}: ${String(error).replaceAll('\n', ' ')}`)
    }
  }
  process.exit(0)
}
