// kafkajs in each cell; ../cells.py says what a cell has.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import kafkajs from 'kafkajs'
import { PATIENCE_MS, RECORDS, equal, runCells, valuesOf } from './cells.mjs'

const { Kafka, logLevel } = kafkajs
const { version } = createRequire(import.meta.url)('kafkajs/package.json')

function client(cell) {
  const settings = { clientId: 'security', brokers: [cell.bootstrap], logLevel: logLevel.NOTHING }
  if (cell.ca) {
    settings.ssl = { ca: [readFileSync(cell.ca)] }
    if (cell.certificate) settings.ssl.key = settings.ssl.cert = readFileSync(cell.certificate)
  }
  if (cell.mechanism === 'OAUTHBEARER') {
    const value = readFileSync(cell.token_path, 'utf8')
    settings.sasl = { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value }) }
  } else if (cell.mechanism) {
    settings.sasl = { mechanism: cell.mechanism.toLowerCase(), username: cell.user, password: cell.password }
  }
  if (cell.is_refused) settings.retry = { retries: 0 }
  return new Kafka(settings)
}

async function use(cell) {
  const kafka = client(cell)
  const values = valuesOf(cell)
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic: cell.topic, messages: values.map(value => ({ value, partition: 0 })), acks: -1 })
  await producer.disconnect()
  const consumer = kafka.consumer({ groupId: cell.topic })
  await consumer.connect()
  await consumer.subscribe({ topic: cell.topic, fromBeginning: true })
  const found = []
  await new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error(`${found.length} of ${RECORDS} records`)), PATIENCE_MS).unref()
    const eachMessage = async ({ message }) => {
      found.push(message.value.toString())
      if (found.length === RECORDS) resolve()
    }
    consumer.run({ eachMessage }).catch(reject)
  })
  await consumer.disconnect()
  equal(found, values)
}

async function refused(cell) {
  const producer = client(cell).producer()
  try {
    // It takes any answer to its token for success, so that only what is sent afterwards fails.
    await producer.connect()
    await producer.send({ topic: cell.topic, messages: [{ partition: 0, value: 'x' }] })
  } finally {
    await producer.disconnect().catch(() => {})
  }
}

// It has no GSSAPI.
await runCells(version, use, refused, ['GSSAPI'])
