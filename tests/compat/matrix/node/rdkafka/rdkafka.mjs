// node-rdkafka, on its bundled librdkafka. Of groups and configs its admin has no calls.
import { createRequire } from 'node:module'
import { promisify } from 'node:util'
import rdkafka from 'node-rdkafka'
import {
  PARTITIONS, RECORDS, SECONDS, bootstrap, equal, includesAll, name, replication, run, until, valuesOf
} from '../checks.mjs'

const { version } = createRequire(import.meta.url)('node-rdkafka/package.json')
/** What librdkafka reports where no record is as late. */
const END = -1
const MILLISECONDS = SECONDS * 1000
const common = { 'bootstrap.servers': bootstrap }
const admin = rdkafka.AdminClient.create(common)
const [TOPIC, SHARED, GROUP] = [name('topic'), name('shared'), name('group')]

/** Call a method that ends in a callback. */
const call = (client, method, ...parameters) => promisify(client[method].bind(client))(...parameters)

const create = topic =>
  call(admin, 'createTopic', { topic, num_partitions: PARTITIONS, replication_factor: replication }, MILLISECONDS)

async function withClient(client, use) {
  await call(client, 'connect', {})
  try {
    return await use(client)
  } finally {
    await call(client, 'disconnect')
  }
}

const withProducer = (settings, use) => withClient(new rdkafka.Producer({ ...common, dr_cb: true, ...settings }), use)

/** Write all, and wait for each to be delivered. A value is text, or text and its timestamp. */
async function send(producer, topic, values, partitions = 1) {
  const reports = []
  const told = (error, report) => reports.push(error ?? report.error ?? null)
  producer.on('delivery-report', told)
  producer.setPollInterval(20)
  values.forEach((value, number) => {
    const [text, timestamp] = [value].flat()
    producer.produce(topic, number % partitions, Buffer.from(text), null, timestamp)
  })
  await until(() => reports.length === values.length, 'all are delivered')
  producer.removeListener('delivery-report', told)
  equal(reports.filter(Boolean).map(String), [])
}

const produce = (topic, values, { partitions = 1, ...settings } = {}) =>
  withProducer(settings, producer => send(producer, topic, values, partitions))

function withConsumer(group, settings, use) {
  const base = { ...common, 'group.id': group, 'enable.auto.commit': false, 'session.timeout.ms': 10000 }
  const consumer = new rdkafka.KafkaConsumer({ ...base, ...settings }, { 'auto.offset.reset': 'earliest' })
  consumer.setDefaultConsumeTimeout(200)
  return withClient(consumer, use)
}

async function poll(consumer, count, each = () => {}) {
  const found = []
  const deadline = Date.now() + MILLISECONDS
  while (found.length < count && Date.now() < deadline) {
    for (const message of await call(consumer, 'consume', count - found.length)) {
      found.push(message.value.toString())
      each(message)
    }
  }
  return found
}

const consume = (topic, count, { offset = 0, ...settings } = {}) =>
  withConsumer(name('assigned'), settings, consumer => {
    consumer.assign([{ topic, partition: 0, offset }])
    return poll(consumer, count)
  })

async function roundTrip(of, settings) {
  await create(name(of))
  await produce(name(of), valuesOf(of), settings)
  equal(await consume(name(of), RECORDS), valuesOf(of))
}

/** A member of a group that reads until it leaves. */
async function join(group, settings = {}) {
  const member = { seen: [], partitions: 0, over: false }
  let resolve, reject
  const joined = new Promise((...both) => ([resolve, reject] = both))
  member.gone = withConsumer(group, { 'enable.auto.commit': true, ...settings, rebalance_cb: true }, async consumer => {
    consumer.subscribe([SHARED])
    resolve(member)
    while (!member.over) {
      for (const message of await call(consumer, 'consume', 100)) member.seen.push(message.value.toString())
      member.partitions = consumer.assignments().length
    }
  })
  member.gone.catch(reject)
  member.leave = () => {
    member.over = true
    return member.gone
  }
  return joined
}

async function groupShare(strategy) {
  const settings = { 'partition.assignment.strategy': strategy }
  const values = valuesOf(strategy, 3 * RECORDS)
  const group = name(`share-${strategy}`)
  await produce(SHARED, values.slice(0, RECORDS), { partitions: PARTITIONS })
  const first = await join(group, settings)
  try {
    await until(() => first.partitions === PARTITIONS && includesAll(first.seen, values.slice(0, RECORDS)), 'the first has all')
    const second = await join(group, settings)
    try {
      await until(() => [first, second].every(each => each.partitions === PARTITIONS / 2), 'both have half')
      await produce(SHARED, values.slice(RECORDS, 2 * RECORDS), { partitions: PARTITIONS })
      await until(() => includesAll([...first.seen, ...second.seen], values.slice(0, 2 * RECORDS)), 'both read all')
      equal(second.seen.length > 0, true)
    } finally {
      await second.leave()
    }
    await produce(SHARED, values.slice(2 * RECORDS), { partitions: PARTITIONS })
    await until(() => includesAll([...first.seen, ...second.seen], values), 'who is left reads all')
  } finally {
    await first.leave()
  }
}

/** Who comes back within its session has what it had. */
async function staticMember() {
  const member = instance => join(name('static'), { 'group.instance.id': instance })
  const [first, second] = [await member('one'), await member('two')]
  try {
    await until(() => [first, second].every(each => each.partitions === PARTITIONS / 2), 'both have half')
    await second.leave()
    const again = await member('two')
    await until(() => again.partitions === PARTITIONS / 2, 'who came back has half')
    await again.leave()
    equal(first.partitions, PARTITIONS / 2)
  } finally {
    await first.leave()
  }
}

const readSome = count =>
  withConsumer(GROUP, {}, consumer => {
    consumer.subscribe([TOPIC])
    return poll(consumer, count, message => consumer.commitMessageSync(message))
  })

async function committed(group, topic) {
  const [{ offset }] = await withConsumer(group, {}, consumer =>
    call(consumer, 'committed', [{ topic, partition: 0 }], MILLISECONDS)
  )
  return offset ?? 'none'
}

async function partitionsOf(topic) {
  const { topics } = await withProducer({}, producer => call(producer, 'getMetadata', { timeout: MILLISECONDS }))
  return topics.find(each => each.name === topic)?.partitions ?? []
}

async function offsetsByTime() {
  const [topic, begin] = [name('timed'), Date.now() - 3600000]
  await create(topic)
  await produce(topic, valuesOf('timed').map((value, number) => [value, begin + 10 * number]))
  await withConsumer(name('timed'), {}, async consumer => {
    for (const number of [0, 7, RECORDS - 1]) {
      const asked = [{ topic, partition: 0, offset: begin + 10 * number - 3 }]
      equal((await call(consumer, 'offsetsForTimes', asked, MILLISECONDS))[0].offset, number)
    }
    const late = [{ topic, partition: 0, offset: begin + 10 * RECORDS }]
    equal((await call(consumer, 'offsetsForTimes', late, MILLISECONDS))[0].offset, END)
  })
}

async function withTransactions(id, use) {
  await withProducer({ 'transactional.id': name(id) }, async producer => {
    await call(producer, 'initTransactions', MILLISECONDS)
    await use(producer)
  })
}

/** Begin a transaction, do something in it, and end it. */
async function transaction(producer, end, use) {
  await call(producer, 'beginTransaction')
  await use()
  await call(producer, end, MILLISECONDS)
}

async function transactions() {
  const topic = name('transactions')
  await create(topic)
  await withTransactions('records', async producer => {
    await transaction(producer, 'commitTransaction', () => send(producer, topic, valuesOf('one')))
    await transaction(producer, 'abortTransaction', () => send(producer, topic, valuesOf('aborted')))
    await transaction(producer, 'commitTransaction', () => send(producer, topic, valuesOf('two')))
  })
  const isolated = (count, level) => consume(topic, count, { 'isolation.level': level })
  equal(await isolated(2 * RECORDS, 'read_committed'), [...valuesOf('one'), ...valuesOf('two')])
  equal(await isolated(3 * RECORDS, 'read_uncommitted'), [...valuesOf('one'), ...valuesOf('aborted'), ...valuesOf('two')])
}

async function transactionalOffsets() {
  const [topic, group] = [name('transactional-offsets'), name('transactional-group')]
  await create(topic)
  await withTransactions('offsets', producer => withConsumer(group, {}, async consumer => {
    const sendOffset = offset => () =>
      call(producer, 'sendOffsetsToTransaction', [{ topic, partition: 0, offset }], consumer, MILLISECONDS)
    await transaction(producer, 'abortTransaction', sendOffset(5))
    equal(await committed(group, topic), 'none')
    await transaction(producer, 'commitTransaction', sendOffset(7))
    equal(await committed(group, topic), 7)
  }))
}

await run(`${version.replace('v', '')} (librdkafka ${rdkafka.librdkafkaVersion})`, {
  'create-topic': async () => {
    await create(TOPIC)
    await create(SHARED)
  },
  'list-topics': async () => {
    const { topics } = await withProducer({}, producer => call(producer, 'getMetadata', { timeout: MILLISECONDS }))
    equal(includesAll(topics.map(each => each.name), [TOPIC, SHARED]), true)
  },
  'describe-topics': async () => {
    equal((await partitionsOf(TOPIC)).map(each => each.replicas.length), Array(PARTITIONS).fill(replication))
  },
  produce: () => roundTrip('produce'),
  'produce-acks-0': () => roundTrip('acks-0', { acks: 0 }),
  'produce-acks-1': () => roundTrip('acks-1', { acks: 1 }),
  'produce-idempotent': () => roundTrip('idempotent', { 'enable.idempotence': true }),
  ...Object.fromEntries(['gzip', 'snappy', 'lz4', 'zstd'].map(codec =>
    [`produce-${codec}`, () => roundTrip(codec, { 'compression.type': codec })])),
  'consume-assigned': async () => {
    await produce(TOPIC, valuesOf('seek'))
    equal(await consume(TOPIC, RECORDS / 2, { offset: RECORDS / 2 }), valuesOf('seek').slice(RECORDS / 2))
  },
  'list-offsets': async () => {
    const found = await withProducer({}, producer => call(producer, 'queryWatermarkOffsets', TOPIC, 0, MILLISECONDS))
    equal([found.lowOffset, found.highOffset], [0, RECORDS])
  },
  'offsets-by-time': offsetsByTime,
  'group-share': () => groupShare('range'),
  'group-cooperative': () => groupShare('cooperative-sticky'),
  'static-member': staticMember,
  'group-resume': async () => {
    equal(await readSome(RECORDS / 2), valuesOf('seek').slice(0, RECORDS / 2))
    equal(await readSome(RECORDS / 2), valuesOf('seek').slice(RECORDS / 2))
  },
  transactions,
  'transactional-offsets': transactionalOffsets,
  'list-group-offsets': async () => equal(await committed(GROUP, TOPIC), RECORDS),
  'create-partitions': async () => {
    await call(admin, 'createPartitions', TOPIC, PARTITIONS + 2, MILLISECONDS)
    await until(async () => (await partitionsOf(TOPIC)).length === PARTITIONS + 2, 'two partitions more')
  },
  'describe-cluster': async () => {
    const { brokers } = await withProducer({}, producer => call(producer, 'getMetadata', { timeout: MILLISECONDS }))
    equal(brokers.length >= replication, true)
  },
  'delete-topic': async () => {
    await call(admin, 'deleteTopic', TOPIC, MILLISECONDS)
    await until(async () => (await partitionsOf(TOPIC)).length === 0, 'the topic is gone')
  }
})
