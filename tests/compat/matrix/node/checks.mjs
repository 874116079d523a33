// What programs of the matrix have in common; tests/compat/matrix/python/checks.py says what they print.
export const PARTITIONS = 4
export const RECORDS = 40
export const SECONDS = 60

export const [bootstrap, replicationText, prefix] = process.argv.slice(2)
export const replication = Number(replicationText)

export const name = suffix => `${prefix}-${suffix}`

export const valuesOf = (of, count = RECORDS) => Array.from({ length: count }, (_, number) => `${of} ${number}`)

export const sleep = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds))

export async function until(isSo, what) {
  const deadline = Date.now() + SECONDS * 1000
  while (!(await isSo())) {
    if (Date.now() > deadline) throw new Error(`not within ${SECONDS} s: ${what}`)
    await sleep(50)
  }
}

export function equal(found, expected) {
  const [left, right] = [text(found), text(expected)]
  if (left !== right) throw new Error(`${left.slice(0, 200)} instead of ${right.slice(0, 200)}`)
}

const text = value => JSON.stringify(value, (_, each) => (typeof each === 'bigint' ? Number(each) : each))

export const includesAll = (found, expected) => expected.every(each => found.includes(each))

function withinTime(check) {
  let timer
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done within ${3 * SECONDS} s`)), 3 * SECONDS * 1000)
  })
  return Promise.race([check(), late]).finally(() => clearTimeout(timer))
}

/** A check that fails stops none of those behind it. */
export async function run(version, checks, lacking = []) {
  console.log('version', version)
  if (lacking.length) console.log('lacks', lacking.join(' '))
  console.log('plan', Object.keys(checks).join(' '))
  for (const [capability, check] of Object.entries(checks)) {
    try {
      await withinTime(check)
      console.log('ok', capability)
    } catch (error) {
      const causes = (error.errors ?? []).map(each => each.message).join(', ')
      console.log(`failed ${capability}: ${`${error.name}: ${error.message} ${causes}`.replace(/\s+/g, ' ').slice(0, 500)}`)
    }
  }
  process.exit(0)
}

// A client that fails in the background is seen by what does not come of it.
process.on('unhandledRejection', error => console.log('background:', error))
process.on('uncaughtException', error => console.log('background:', error))
