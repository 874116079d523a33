// @platformatic/kafka in each cell. Its GSSAPI is for a library that its users bring along.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { Admin, Consumer, Producer, stringDeserializers, stringSerializers } from '@platformatic/kafka'
import { PATIENCE_MS, RECORDS, equal, runCells, valuesOf } from './cells.mjs'

const require = createRequire(import.meta.url)
const { version } = require('./node_modules/@platformatic/kafka/package.json')

function settings(cell) {
  const chosen = { clientId: 'security', bootstrapBrokers: [cell.bootstrap] }
  if (cell.ca) {
    chosen.tls = { ca: [readFileSync(cell.ca)] }
    if (cell.certificate) chosen.tls.key = chosen.tls.cert = readFileSync(cell.certificate)
  }
  if (cell.mechanism === 'OAUTHBEARER') {
    chosen.sasl = { mechanism: cell.mechanism, token: readFileSync(cell.token_path, 'utf8') }
  } else if (cell.mechanism) {
    chosen.sasl = { mechanism: cell.mechanism, username: cell.user, password: cell.password }
  }
  return chosen
}

async function use(cell) {
  const values = valuesOf(cell)
  const producer = new Producer({ ...settings(cell), serializers: stringSerializers, autocreateTopics: true })
  try {
    await producer.send({ messages: values.map(value => ({ topic: cell.topic, value, partition: 0 })), acks: -1 })
  } finally {
    await producer.close()
  }
  const consumer = new Consumer({ ...settings(cell), groupId: cell.topic, deserializers: stringDeserializers, maxWaitTime: 200 })
  const found = []
  try {
    const stream = await consumer.consume({
      topics: [cell.topic], mode: 'manual', offsets: [{ topic: cell.topic, partition: 0, offset: 0n }], autocommit: false
    })
    const late = setTimeout(() => stream.destroy(new Error(`${found.length} of ${RECORDS} records`)), PATIENCE_MS)
    for await (const message of stream) {
      found.push(message.value)
      if (found.length === RECORDS) break
    }
    clearTimeout(late)
  } finally {
    await consumer.close(true)
  }
  equal(found, values)
}

async function refused(cell) {
  const admin = new Admin({ ...settings(cell), retries: 0 })
  try {
    await admin.listTopics()
  } finally {
    await admin.close().catch(() => {})
  }
}

await runCells(version, use, refused, ['GSSAPI'])
